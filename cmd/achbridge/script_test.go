package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
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
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/daemon"
	"achbridge/localach"
	"achbridge/testnet/hosts"
)

func TestMain(m *testing.M) {
	hosts.Main()
	// Scripts mostly wait for what daemons do: six at a time, unless -parallel says
	// otherwise.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"achbridge": main, "age-reader": ageReader, "achd-pull": achdPull, "achd-push": achdPush, "keeper": keeper})
}

// TestScripts runs the shell sessions in testdata. Each has its own channel
// directories, so that it never meets the channels of this host: $ROBOT and
// $PC, of which ACHBRIDGE_SHM names the one in use, and two free UDP ports. With -short only
// some run, in which daemons do much at once.
func TestScripts(t *testing.T) {
	dir, files := "testdata", []string(nil)
	if testing.Short() { // under the race detector, where a program takes long to start
		dir = ""
		for _, name := range []string{"bridge", "contest", "hub_hosts", "key_change", "record", "reload"} {
			files = append(files, filepath.Join("testdata", name+".txt"))
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:   dir,
		Files: files,
		Setup: setUp,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"until":  untilTrue,
			"notify": notify,
			"keys":   keys,
			"fetch":  fetch,
			"odd":    odd,
		},
		RequireExplicitExec: true,
		Condition: func(name string) (bool, error) {
			if name != "hub" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return withHub(), nil
		},
	})
}

// withHub tells that this program was built with the hub.
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
		s, err := daemon.ListenUDP("127.0.0.1:0", config.TransportAuto)
		if err != nil {
			return err
		}
		defer s.Close()
		env.Setenv(name, strconv.Itoa(s.At.Port))
	}
	examples, err := filepath.Abs("../../packaging/examples")
	if err != nil {
		return err
	}
	env.Setenv("EXAMPLES", examples)
	env.Setenv("ACHBRIDGE_SHM", env.Getenv("ROBOT"))
	env.Setenv("NO_COLOR", "1")
	env.Setenv("GORACE", os.Getenv("GORACE"))
	return nil
}

// exits runs a command and wants its exit code: exits 2 achbridge channel.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// untilTrue repeats a command until it succeeds and its output matches, and
// then runs it once more as exec does: until REGEXP COMMAND [ARG...].
func untilTrue(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND [ARG...]")
	}
	wanted := regexp.MustCompile("(?m)" + args[0])
	deadline := time.Now().Add(15 * time.Second)
	for {
		cmd := exec.Command(args[1], args[2:]...)
		cmd.Dir = ts.MkAbs(".")
		cmd.Env = append(os.Environ(), "ACHBRIDGE_SHM="+ts.Getenv("ACHBRIDGE_SHM"), "NO_COLOR=1", "EXAMPLES="+ts.Getenv("EXAMPLES"))
		out, err := cmd.CombinedOutput()
		if err == nil && wanted.Match(out) {
			ts.Check(ts.Exec(args[1], args[2:]...))
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%q: never %q within 15 s, but %v:\n%s", args[1:], args[0], err, out)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// notify plays the service manager: what commands report to it is appended to
// a file, a line each: notify FILE.
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

// keys prints the keys that JSON documents have, sorted: keys FILE...
func keys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: keys FILE...")
	}
	found := map[string]bool{}
	for _, file := range args {
		var v any
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(file)), &v))
		collectKeys(v, "", found)
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintln(ts.Stdout(), key)
	}
}

// collectKeys notes the paths of all keys below v; [] stands for the entries of
// a list.
func collectKeys(v any, path string, found map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			at := strings.TrimPrefix(path+"."+key, ".")
			found[at] = true
			collectKeys(value, at, found)
		}
	case []any:
		for _, value := range v {
			collectKeys(value, path+"[]", found)
		}
	}
}

// fetch prints a page of the daemon whose control socket is named, and wants the
// status code: fetch 200 pc.sock /metrics.
func fetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: fetch CODE CONTROL PATH")
	}
	var s api.StatusReply
	_, err := (&app{Places: config.Places{Env: ts.Getenv}}).client(ts.MkAbs(args[1])).Get(context.Background(), "/v1/status", &s)
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

// keeper NAME FILE keeps a channel open, as a program linked with libach does, until it is interrupted. It writes FILE when
// it has it open.
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

// odd NAME makes a channel of 16 x 212, which libach can create and never open: from one of 16 x 213.
func odd(ts *testscript.TestScript, _ bool, args []string) {
	const index, before, after = 320 + 8 + 16*24, 16 * 213, 16 * 212
	dir := localach.Dir(ts.Getenv("ACHBRIDGE_SHM"))
	ch, err := dir.Create(args[0], localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: 213}})
	ts.Check(err)
	ts.Check(ch.Close())
	file, err := os.ReadFile(dir.Path(args[0]))
	ts.Check(err)
	copy(file[index+8+after:], file[index+8+before:]) // the guard behind the data
	file = file[:len(file)-before+after]
	for at, value := range map[int]int{8: len(file), 96: after, 112: after} {
		binary.NativeEndian.PutUint64(file[at:], uint64(value))
	}
	ts.Check(os.WriteFile(dir.Path(args[0]), file, 0o666))
}
