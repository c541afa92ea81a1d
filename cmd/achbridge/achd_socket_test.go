package main_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A service manager can hold the port for achd clients. A client that connects while the daemon restarts then waits and is
// served, instead of being refused.
func TestAchdClientWaitsWhileDaemonRestarts(t *testing.T) {
	dir := memory(t)
	config := "name: robot\nlisten: 127.0.0.1:0\ndiscovery: off\nachd: {listen: '127.0.0.1:1', from: [127.0.0.1], channels: [imu]}\n"
	if err := os.WriteFile(filepath.Join(dir, "achbridge.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	succeeds(t, dir, "key", "new")
	succeeds(t, dir, "ch", "create", "imu", "--size", "64")
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	passed, err := held.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer passed.Close()
	start := func() *exec.Cmd {
		cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=achd exec achbridge run 2>>run.log`)
		cmd.Dir, cmd.Env, cmd.ExtraFiles = dir, environment(dir), []*os.File{passed}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		return cmd
	}
	pull := func() net.Conn {
		conn, err := net.Dial("tcp", held.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprint(conn, "channel-name: imu\ntransport: tcp\nget-last: 1\ndirection: push\n.\n")
		return conn
	}
	answered := func(conn net.Conn) {
		t.Helper()
		answer := make([]byte, 200)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := conn.Read(answer)
		if err != nil || !strings.Contains(string(answer[:n]), "frame-count: ") {
			log, _ := os.ReadFile(filepath.Join(dir, "run.log"))
			t.Fatalf("got %q, %v, want the geometry of imu\n%s", answer[:n], err, log)
		}
	}
	first := start()
	answered(pull())
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	waiting := pull()
	start()
	answered(waiting)
}
