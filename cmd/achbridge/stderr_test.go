package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/api"
	"achbridge/testnet/await"
)

// fullPipe returns a pipe whose buffer is full, so that writes block until a read.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(fds[0]), "reader"), os.NewFile(uintptr(fds[1]), "stderr")
	t.Cleanup(func() { r.Close(); w.Close() })
	if err := unix.SetNonblock(fds[1], true); err != nil {
		t.Fatal(err)
	}
	for err := error(nil); err == nil; {
		_, err = unix.Write(fds[1], make([]byte, 1024))
	}
	if err := unix.SetNonblock(fds[1], false); err != nil {
		t.Fatal(err)
	}
	return r, w
}

// serves runs a daemon with the given stderr, waits until it answers, and checks that SIGTERM ends it.
func serves(t *testing.T, stderr *os.File) {
	t.Helper()
	shm, err := os.MkdirTemp("/dev/shm", "achbridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(shm) })
	dir := t.TempDir()
	key, socket := filepath.Join(dir, "key"), filepath.Join(dir, "sock")
	if err := trust.NewKey().Write(key); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command("achbridge", "run", "--shm", shm, "--listen", "127.0.0.1:0", "--discovery", "off",
		"--key", key, "--control", socket, "--state", filepath.Join(dir, "state"))
	daemon.Stderr = stderr
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	t.Cleanup(func() { daemon.Process.Kill() })
	await.NoError(t, func() error { _, err := api.New(socket).Get(t.Context(), "/v1/status", new(any)); return err })
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := await.Receive(t, "the end of the daemon after SIGTERM", ended); err != nil {
		t.Errorf("exit of the daemon: got %v, want success", err)
	}
}

func TestDaemonServesWhileStderrIsFull(t *testing.T) {
	t.Parallel()
	_, stderr := fullPipe(t)
	serves(t, stderr)
}

func TestDaemonServesWhileStderrIsClosed(t *testing.T) {
	t.Parallel()
	r, stderr := fullPipe(t)
	r.Close()
	serves(t, stderr)
}
