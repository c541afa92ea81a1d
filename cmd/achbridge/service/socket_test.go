package service

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var someProcess = Process{Called: "daemon", Second: "--control PATH"}

func TestSocketOfRunningDaemonIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	ln, err := ListenSocket(path, someProcess)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o660 {
		t.Errorf("got mode %v, want 0660", info.Mode().Perm())
	}

	_, err = ListenSocket(path, someProcess)
	if err == nil || !strings.Contains(err.Error(), "pid ") {
		t.Errorf("got %v, want an error that names the process", err)
	}
}

func TestSocketOfEndedDaemonIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()

	ln, err := ListenSocket(path, someProcess)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	ln.Close()
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 0 {
		t.Errorf("got files %v after the end of the daemon, want none", entries)
	}
}

func TestSocketOfSuccessorIsNotRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	old, err := ListenSocket(path, someProcess)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	heir, err := ListenSocket(path, someProcess)
	if err != nil {
		t.Fatal(err)
	}
	defer heir.Close()

	old.Close()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the successor's socket was removed: %v", err)
	}
}

func TestInvalidSocketPathsAreRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "sock"), filepath.Join(dir, strings.Repeat("x", 110))} {
		if ln, err := ListenSocket(path, someProcess); err == nil {
			ln.Close()
			t.Errorf("%s: got a listener, want an error", path)
		}
	}
	if text, _ := os.ReadFile(file); string(text) != "mine" {
		t.Errorf("the file was changed to %q", text)
	}
}
