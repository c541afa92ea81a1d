package hub

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

// A nats-server with streams needs a directory, even if all streams are in memory. The server
// creates empty directories there, but writes no frames. The directory is on tmpfs, so that no
// later version of the server can write to a disk. It is empty at each start.

// makeStore creates the directory name in the first base directory that is in memory and writable.
func makeStore(p config.Places, name string) (string, error) {
	for _, base := range []string{p.Env("RUNTIME_DIRECTORY"), p.Env("XDG_RUNTIME_DIR"), "/dev/shm", "/run"} {
		if !filepath.IsAbs(base) || !inMemory(base) {
			continue
		}
		path := filepath.Join(base, name)
		_ = os.RemoveAll(path) // left by a killed hub; the control socket excludes a running one
		if err := os.Mkdir(path, 0o700); err == nil {
			return path, nil
		}
	}
	return "", ui.Failure(errors.New("hub: no directory in memory is writable: neither $RUNTIME_DIRECTORY nor $XDG_RUNTIME_DIR, /dev/shm or /run"),
		"name one on tmpfs: RUNTIME_DIRECTORY=/run/achbridge-hub achbridge hub")
}

// storeName returns a directory name that is unique for each hub of this computer.
func storeName(d Directory) string {
	sum := sha256.Sum256([]byte(config.Absolute(string(d))))
	return fmt.Sprintf("achbridge-hub-%x", sum[:6])
}

func removeStore(path string) { _ = os.RemoveAll(path) }

// inMemory reports whether a directory is on a file system without a disk.
func inMemory(path string) bool {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return false
	}
	return fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC
}
