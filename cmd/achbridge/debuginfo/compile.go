package debuginfo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Limits of the compiler that Compile runs.
const (
	compileTime   = 60 * time.Second
	compileMemory = 4 << 20 // KiB
)

// Compile makes the compiler write debug information of a struct that a header declares, and
// opens it. Options go to the compiler; CC=NAME among them says which it is, compiler is it
// otherwise. Nothing that is compiled is run.
func Compile(ctx context.Context, header, name, compiler string, options []string) (*Program, error) {
	var given []string
	for _, o := range options {
		if cc, ok := strings.CutPrefix(o, "CC="); ok {
			compiler = cc
		} else {
			given = append(given, o)
		}
	}
	path, err := exec.LookPath(compiler)
	if err != nil {
		return nil, fmt.Errorf("no compiler %s: %w", compiler, errors.Unwrap(err))
	}
	if header, err = filepath.Abs(header); err != nil {
		return nil, err
	}
	if _, err := os.Stat(header); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "achbridge-type-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var first error
	for _, as := range []string{name, "struct " + name} { // C names a struct so, unless it has a typedef
		said, err := probe(ctx, dir, path, given, fmt.Sprintf("#include \"%s\"\n%s achbridge_probe;\n", header, as))
		if err == nil {
			return Open(filepath.Join(dir, "probe.o"))
		}
		if first == nil {
			first = fmt.Errorf("%s: %w:\n%s", compiler, err, said)
		}
		if strings.Contains(name, " ") || ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// probe compiles a text, and returns what the compiler said.
func probe(ctx context.Context, dir, compiler string, options []string, text string) (string, error) {
	source := filepath.Join(dir, "probe.c")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, compileTime)
	defer cancel()
	limits := fmt.Sprintf(`ulimit -t %d && ulimit -v %d && exec "$0" "$@"`, int(compileTime.Seconds()), compileMemory)
	args := append([]string{"-c", limits, compiler, "-g"}, options...)
	args = append(args, "-fno-lto", "-gno-split-dwarf", "-fno-debug-types-section", "-c", "-o", filepath.Join(dir, "probe.o"), source)
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("not done after %v", compileTime)
	}
	lines := strings.SplitAfterN(said.String(), "\n", 9)
	return strings.TrimSpace(strings.Join(lines[:min(8, len(lines))], "")), err
}
