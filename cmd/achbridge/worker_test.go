package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"achbridge/testnet/await"
)

// CommandLine describes one run of the program in a worker: its arguments, its whole environment
// and its directory. Standard input is empty.
type CommandLine struct {
	Args, Env []string
	Dir       string
}

// Result is the exit code and output of a command line.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// worker is a process of the test binary that runs command lines of the program in sequence.
// It saves CPU time: each start of the program costs 40 ms, and tests run more than a thousand
// command lines. Programs that keep running, receive signals, read standard input or a
// terminal, or are run by a shell need their own process.
type worker struct {
	process *exec.Cmd
	lines   *os.File
	results *os.File
}

// idle holds the workers that are ready for a command line.
var idle = make(chan *worker, 32)

// RunCommandLine runs c in an idle worker, or in a new one if none is idle.
func RunCommandLine(c CommandLine) (Result, error) {
	var w *worker
	select {
	case w = <-idle:
	default:
		var err error
		if w, err = startWorker(); err != nil {
			return Result{}, err
		}
	}
	r, err := w.run(c)
	if err != nil {
		_ = w.process.Process.Kill()
		return Result{}, fmt.Errorf("achbridge %s: %w; the worker ended: %v", strings.Join(c.Args, " "), err, w.process.Wait())
	}
	idle <- w
	return r, nil
}

// endWorkers ends the idle workers. TestMain calls it at the end.
func endWorkers() {
	for len(idle) > 0 {
		w := <-idle
		w.lines.Close()
		_ = w.process.Wait()
	}
}

func startWorker() (*worker, error) {
	theirIn, lines, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	results, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirOut.Close()
	cmd := exec.Command("worker")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, os.Stderr
	cmd.Env = append(os.Environ(), "GORACE="+os.Getenv("GORACE")+" halt_on_error=1") // a data race ends the worker and so fails the test
	return &worker{cmd, lines, results}, cmd.Start()
}

func (w *worker) run(c CommandLine) (r Result, err error) {
	if err := json.NewEncoder(w.lines).Encode(c); err != nil {
		return r, err
	}
	_ = w.results.SetReadDeadline(await.Deadline())
	err = json.NewDecoder(w.results).Decode(&r) // the decoder's buffer loses no data: the worker writes one result at a time
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("not done within %v", await.Limit)
	}
	return r, err
}

// work is the main function of worker.
func work() {
	syscall.Umask(0o022)
	lines, results := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	os.Stdin = must(os.Open(os.DevNull))
	for {
		var c CommandLine
		if lines.Decode(&c) != nil {
			return
		}
		if err := results.Encode(c.start()); err != nil {
			panic(err)
		}
	}
}

// start runs the command line in this process, whose directory, environment and output it replaces.
func (c CommandLine) start() Result {
	if err := os.Chdir(c.Dir); err != nil {
		panic(err)
	}
	os.Clearenv()
	for _, v := range c.Env {
		name, value, _ := strings.Cut(v, "=")
		os.Setenv(name, value)
	}
	os.Stdout, os.Stderr = memoryFile(), memoryFile()
	return Result{Code: start(c.Args), Stdout: contents(os.Stdout), Stderr: contents(os.Stderr)}
}

func memoryFile() *os.File {
	return os.NewFile(uintptr(must(unix.MemfdCreate("output", unix.MFD_CLOEXEC))), "output")
}

// contents returns the data written to f and closes f.
func contents(f *os.File) string {
	defer f.Close()
	size := must(f.Seek(0, io.SeekCurrent))
	return string(must(io.ReadAll(io.NewSectionReader(f, 0, size))))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
