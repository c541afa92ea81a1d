package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs is the directory with the programs for the hosts.
type programs string

func (p programs) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(string(p), name)
}

func (p programs) remove() { os.RemoveAll(string(p)) }

const (
	sources = "testnet/versus/c/"
	peer    = "localach/testdata/peer" // the C library of the tests that writes libach's channels
)

// compile returns the command that compiles a C program. more are further sources and libraries.
func (p programs) compile(name string, more ...string) []string {
	job := []string{"cc", "-std=gnu11", "-O2", "-Wall", "-pthread", "-I" + peer, "-I" + string(p), "-o", p.path(name), sources + name + ".c", peer + "/channel.c"}
	return append(job, more...)
}

// forTools returns the commands that build achbridge, both ends, and the installed tools.
func (p programs) forTools(tools []tool) [][]string {
	jobs := [][]string{{"go", "build", "-o", p.path("achbridge"), "./cmd/achbridge"}, {"go", "build", "-o", p.path("goping"), "./testnet/versus/goping"}, p.compile("ends"), p.compile("achd")}
	for _, t := range tools {
		if t.library == "" || t.missing() != nil {
			continue
		}
		more := []string{sources + "carry.c"}
		if t.idl != "" {
			jobs = append(jobs, []string{"idlc", "-o", string(p), sources + t.idl + ".idl"})
			more = append(more, p.path(t.idl+".c"))
		}
		jobs = append(jobs, p.compile(t.name, append(more, "-l"+t.library)...))
	}
	return jobs
}

// build runs commands that build programs, in the repository.
func build(jobs func(p programs) [][]string) (programs, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "achbridge").Output()
	if err != nil {
		return "", errors.New("run it inside the repository of achbridge, whose programs it builds")
	}
	if _, err := exec.LookPath("cc"); err != nil {
		return "", fmt.Errorf("%w: apt-get install gcc libc6-dev", err)
	}
	dir, err := os.MkdirTemp("", "achbridge-versus-")
	if err != nil {
		return "", err
	}
	p := programs(dir)
	for _, job := range jobs(p) {
		cmd := exec.Command(job[0], job[1:]...)
		cmd.Dir = strings.TrimSpace(string(root))
		if out, err := cmd.CombinedOutput(); err != nil {
			p.remove()
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(job, " "), err, out)
		}
	}
	return p, nil
}
