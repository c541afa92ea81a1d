package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs is the directory with what runs on the hosts.
type programs string

func (p programs) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(string(p), name)
}

func (p programs) remove() { os.RemoveAll(string(p)) }

// build makes achbridge and the C programs; the channels of these are those of the
// tests' own peer of libach.
func build() (programs, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "achbridge").Output()
	if err != nil {
		return "", errors.New("run it inside the repository of achbridge, whose programs it builds")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", fmt.Errorf("%w: apt-get install gcc libc6-dev", err)
	}
	dir, err := os.MkdirTemp("", "achbridge-versus-")
	if err != nil {
		return "", err
	}
	p := programs(dir)
	peer := filepath.Join("localach", "testdata", "peer")
	jobs := [][]string{{"go", "build", "-o", p.path("achbridge"), "./cmd/achbridge"}}
	for _, name := range []string{"ends", "achd"} {
		source := filepath.Join("testnet", "versus", "c", name+".c")
		jobs = append(jobs, []string{cc, "-std=gnu11", "-O2", "-Wall", "-pthread", "-I" + peer, "-o", p.path(name), source, filepath.Join(peer, "channel.c")})
	}
	for _, job := range jobs {
		cmd := exec.Command(job[0], job[1:]...)
		cmd.Dir = strings.TrimSpace(string(root))
		if out, err := cmd.CombinedOutput(); err != nil {
			p.remove()
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(job, " "), err, out)
		}
	}
	return p, nil
}
