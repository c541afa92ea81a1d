package service

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/ui"
)

// Process describes another process that ListenSocket finds on its socket: what it is called, and how to run a second
// one.
type Process struct{ Called, Second string }

// ListenSocket listens on the unix socket at path, mode 0660. It replaces a socket left by a dead process. If a process
// answers on the socket, the error names that process. The mode is set before the socket appears at path, so that no
// other user can connect in between.
func ListenSocket(path string, other Process) (net.Listener, error) {
	if len(path) > 100 {
		return nil, ui.Usage(fmt.Errorf("control socket %s: a path of %d bytes, at most 100 are possible", path, len(path)), "--control PATH")
	}
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		defer conn.Close()
		return nil, ui.Failure(fmt.Errorf("control socket %s: a %s%s answers there", path, other.Called, ofProcess(conn)),
			"stop it first, or give this one its own: "+other.Second)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, ui.Usage(fmt.Errorf("control socket %s: there is a file that is no socket", path), "--control PATH")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, ui.Failure(fmt.Errorf("control socket: %w", err), "--control PATH")
	}
	// Bind under a temporary name, then rename: rename replaces a stale socket too.
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	_ = os.Remove(fresh)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, ui.Failure(fmt.Errorf("control socket %s: %s", path, CannotListen(err)), "--control PATH")
	}
	ln.SetUnlinkOnClose(false)
	err = os.Chmod(fresh, 0o660)
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		ln.Close()
		_ = os.Remove(fresh)
		return nil, ui.Failure(fmt.Errorf("control socket: %w", err), "--control PATH")
	}
	return &controlListener{ln, path, inode(path)}, nil
}

// controlListener removes its socket when it is closed, unless another process has replaced the socket.
type controlListener struct {
	net.Listener
	path  string
	inode uint64
}

func (l *controlListener) Close() error {
	if inode(l.path) == l.inode {
		_ = os.Remove(l.path)
	}
	return l.Listener.Close()
}

// inode returns the inode number of a file, 0 if it does not exist.
func inode(path string) uint64 {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return 0
	}
	return st.Ino
}

// ofProcess returns the name of the process at the other end, if the kernel knows it.
func ofProcess(conn net.Conn) string {
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return ""
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return ""
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}
