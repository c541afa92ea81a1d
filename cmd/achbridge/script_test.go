package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"achbridge/bridge/via"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/daemon"
	"achbridge/cmd/achbridge/view"
	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
)

// commands maps the names under which the test binary can be started to their main functions.
// TestMain puts links with these names first in PATH.
var commands = map[string]func(){"achbridge": main, "worker": work, "age-reader": ageReader, "achd-pull": achdPull, "achd-push": achdPush, "keeper": keeper}

func TestMain(m *testing.M) {
	hosts.Main()
	if run := commands[filepath.Base(os.Args[0])]; run != nil {
		run()
		os.Exit(0)
	}
	// Scripts mostly wait for daemons, so six run at a time. The flag -parallel changes
	// that.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	bin := must(os.MkdirTemp("", "achbridge-test-"))
	for name := range commands {
		if err := os.Symlink(must(os.Executable()), filepath.Join(bin, name)); err != nil {
			panic(err)
		}
	}
	os.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	code := await.Main(m)
	endWorkers()
	os.RemoveAll(bin)
	os.Exit(code)
}

// TestScripts runs the shell sessions in testdata. Each has two free UDP ports and its own
// channel directories, $ROBOT and $PC, so that it never uses the channels of this host.
// ACHBRIDGE_SHM names the directory in use. With -short only some scripts run, in which
// daemons do many things concurrently.
func TestScripts(t *testing.T) {
	dir, files := "testdata", []string(nil)
	if testing.Short() { // for the race detector, with which a program starts slowly
		dir = ""
		for _, name := range []string{"bridge", "hub_hosts", "key_change", "record", "reload"} {
			files = append(files, filepath.Join("testdata", name+".txt"))
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:   dir,
		Files: files,
		Setup: setUp,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"achbridge": runLine,
			"exits":     exits,
			"until":     untilTrue,
			"interrupt": interrupt,
			"notify":    notify,
			"fetch":     fetch,
			"odd":       odd,
			"empty":     empty,
			"viewer":    connectViewer,
		},
		RequireExplicitExec: true,
		Condition: func(name string) (bool, error) {
			switch name {
			case "hub":
				return withHub(), nil
			case "hangs":
				return localach.KilledReaderHangsPuts(), nil
			case "long":
				return need.IsLong(), nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
	})
}

// withHub reports whether this program was built with the hub.
func withHub() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && !slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "-tags" && slices.Contains(strings.Split(s.Value, ","), "nohub")
	})
}

func setUp(env *testscript.Env) error {
	for _, name := range []string{"ROBOT", "PC"} {
		dir, err := os.MkdirTemp("/dev/shm", "achbridge-test-")
		if err != nil {
			return err
		}
		env.Defer(func() { os.RemoveAll(dir) })
		env.Setenv(name, dir)
	}
	for _, name := range []string{"PORT1", "PORT2"} {
		env.Setenv(name, strconv.Itoa(freePort()))
	}
	examples, err := filepath.Abs("../../packaging/examples")
	if err != nil {
		return err
	}
	env.Setenv("EXAMPLES", examples)
	peer, err := filepath.Abs("../../localach/testdata/peer") // sources of a program that uses a channel as libach does
	if err != nil {
		return err
	}
	env.Setenv("PEER", peer)
	env.Setenv("ACHBRIDGE_SHM", env.Getenv("ROBOT"))
	env.Setenv("NO_COLOR", "1")
	env.Setenv("GORACE", os.Getenv("GORACE"))
	return nil
}

// ports counts the pairs of ports that freePort has returned, from a random start.
var ports = func() *atomic.Int64 {
	n := &atomic.Int64{}
	n.Store(rand.Int64N(8192))
	return n
}()

// freePort returns a port that is free for UDP and TCP. The next port is free for UDP, which
// SCTP uses. Both are below the kernel's ephemeral ports, so that no other program is assigned
// one before its use.
func freePort() int {
	for {
		port := int(16384 + 2*(ports.Add(1)%8192))
		at := "127.0.0.1:" + strconv.Itoa(port)
		s, err := daemon.ListenUDP(at, via.Any)
		if err != nil {
			continue
		}
		s.Close()
		if ln, err := net.Listen("tcp", at); err == nil {
			ln.Close()
			return port
		}
	}
}

// variables returns the names of the environment variables that scripts set.
var variables = sync.OnceValue(func() (names []string) {
	names = []string{"HOME", "TMPDIR", "PATH", "WORK", "NOTIFY_SOCKET", "NO_COLOR", "ROBOT", "PC", "EXAMPLES", "GORACE", "ACHBRIDGE_SHM"}
	for _, file := range must(filepath.Glob("testdata/*.txt")) {
		for _, m := range regexp.MustCompile(`(?m)^env (\w+)=`).FindAllStringSubmatch(string(must(os.ReadFile(file))), -1) {
			names = append(names, m[1])
		}
	}
	return names
})

// environ returns the environment of a script.
func environ(ts *testscript.TestScript) (env []string) {
	for _, name := range variables() {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// outcome runs a command to its end: achbridge in a worker, cat of a file in this process,
// and other commands as processes.
func outcome(ts *testscript.TestScript, args []string) (r Result) {
	switch args[0] {
	case "achbridge":
		r, err := RunCommandLine(CommandLine{Args: args[1:], Env: environ(ts), Dir: ts.MkAbs(".")})
		ts.Check(err)
		return r
	case "cat":
		text, err := os.ReadFile(ts.MkAbs(args[1]))
		if err != nil {
			return Result{Code: 1, Stderr: err.Error()}
		}
		return Result{Stdout: string(text)}
	}
	return process(ts, args, func(*exec.Cmd) {})
}

// process runs a command as a process and calls during while it runs.
func process(ts *testscript.TestScript, args []string, during func(*exec.Cmd)) Result {
	cmd := exec.Command(args[0], args[1:]...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), environ(ts), &out, &said
	ts.Check(cmd.Start())
	during(cmd)
	_ = cmd.Wait() // the exit code is in the Result
	return Result{cmd.ProcessState.ExitCode(), out.String(), said.String()}
}

// printed passes the output of a command to the script.
func (r Result) printed(ts *testscript.TestScript) {
	_, _ = io.WriteString(ts.Stdout(), r.Stdout)
	_, _ = io.WriteString(ts.Stderr(), r.Stderr)
}

// runLine implements "achbridge ARG...". The command must succeed or, after "!", fail.
func runLine(ts *testscript.TestScript, neg bool, args []string) {
	r := outcome(ts, append([]string{"achbridge"}, args...))
	r.printed(ts)
	if neg != (r.Code != 0) {
		ts.Fatalf("exit code %d", r.Code)
	}
}

// exits runs a command and checks its exit code, as in "exits 2 achbridge channel".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	code := 0
	if args[1] == "achbridge" {
		r := outcome(ts, args[1:])
		r.printed(ts)
		code = r.Code
	} else if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// untilTrue implements "until REGEXP COMMAND [ARG...]". It repeats the command until it
// succeeds (after "!": fails) and its output matches.
func untilTrue(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND [ARG...]")
	}
	wanted := regexp.MustCompile("(?m)" + args[0])
	for begin := time.Now(); ; {
		waited := time.Since(begin)
		r := outcome(ts, args[1:])
		if neg == (r.Code != 0) && wanted.MatchString(r.Stdout+r.Stderr) {
			r.printed(ts)
			return
		}
		if waited > await.Limit {
			ts.Fatalf("%q: want %q within %v, got exit code %d:\n%s%s", args[1:], args[0], await.Limit, r.Code, r.Stdout, r.Stderr)
		}
		time.Sleep(min(max(2*time.Millisecond, waited/8), 100*time.Millisecond))
	}
}

// interrupt implements "interrupt REGEXP COMMAND [ARG...]". It repeats the command and sends it
// SIGINT, later in each run, until the output matches.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupt REGEXP COMMAND [ARG...]")
	}
	wanted := regexp.MustCompile("(?m)" + args[0])
	for after := 400 * time.Millisecond; ; after *= 2 {
		r := process(ts, args[1:], func(cmd *exec.Cmd) {
			time.Sleep(after)
			_ = cmd.Process.Signal(os.Interrupt)
		})
		if wanted.MatchString(r.Stdout + r.Stderr) {
			r.printed(ts)
			return
		}
		if after > await.Limit {
			ts.Fatalf("%q: interrupted after %v: want %q, got exit code %d:\n%s%s", args[1:], after, args[0], r.Code, r.Stdout, r.Stderr)
		}
	}
}

// notify implements "notify FILE". It acts as the service manager and appends each
// notification of a command to FILE, as a line.
func notify(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: notify FILE")
	}
	path := ts.MkAbs(args[0])
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path + ".sock", Net: "unixgram"})
	ts.Check(err)
	ts.Defer(func() { conn.Close() })
	ts.Check(os.WriteFile(path, nil, 0o600))
	ts.Setenv("NOTIFY_SOCKET", path+".sock")
	go func() {
		buf := make([]byte, 1024)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			if f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0); err == nil {
				f.Write(append(buf[:n:n], '\n'))
				f.Close()
			}
		}
	}()
}

// fetch prints a page of the daemon with the given control socket and checks the
// status code, as in "fetch 200 pc.sock /metrics".
func fetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: fetch CODE CONTROL PATH")
	}
	var s api.StatusReply
	_, err := (&app{Host: view.Host{Places: config.Places{Env: ts.Getenv}}}).Client(ts.MkAbs(args[1])).Get(context.Background(), "/v1/status", &s)
	ts.Check(err)
	resp, err := http.Get("http://" + s.HTTP + args[2])
	ts.Check(err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	ts.Check(err)
	_, _ = ts.Stdout().Write(page)
	if strconv.Itoa(resp.StatusCode) != args[0] {
		ts.Fatalf("status %s, want %s", resp.Status, args[0])
	}
}

// keeper is the main function of "keeper NAME FILE". It keeps channel NAME open until SIGINT, as a program linked with libach
// does. It writes FILE once the channel is open.
func keeper() {
	ch, err := localach.Dir(os.Getenv("ACHBRIDGE_SHM")).Open(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer ch.Close()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	if err := os.WriteFile(os.Args[2], []byte("open"), 0o600); err != nil {
		os.Exit(1)
	}
	<-interrupted
}

// empty implements "empty DIR". It fails if the directory has an entry.
func empty(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: empty DIR")
	}
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(entries) > 0 {
		ts.Fatalf("%s has %v", args[0], entries)
	}
}

// odd implements "odd NAME". It makes a channel of 16 x 212, which libach can create but never open, from one of 16 x 213.
func odd(ts *testscript.TestScript, _ bool, args []string) {
	const index, before, after = 320 + 8 + 16*24, 16 * 213, 16 * 212
	dir := localach.Dir(ts.Getenv("ACHBRIDGE_SHM"))
	ch, err := dir.Create(args[0], localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: 213}})
	ts.Check(err)
	ts.Check(ch.Close())
	file, err := os.ReadFile(dir.Path(args[0]))
	ts.Check(err)
	copy(file[index+8+after:], file[index+8+before:]) // the guard after the data
	file = file[:len(file)-before+after]
	for at, value := range map[int]int{8: len(file), 96: after, 112: after} {
		binary.NativeEndian.PutUint64(file[at:], uint64(value))
	}
	ts.Check(os.WriteFile(dir.Path(args[0]), file, 0o666))
}
