package localach

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// LockFile opens a file in d that is not a channel, and takes its lock (flock(2)), which lasts until the file is closed or the
// process ends. It creates the file with the given mode if there is none. It does not block: if another process holds the lock, it
// returns ErrLocked.
func (d Dir) LockFile(name string, mode fs.FileMode) (*os.File, error) {
	path := filepath.Join(string(d), name)
	const flags = unix.O_RDWR | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	for {
		fd, err := unix.Open(path, flags, 0)
		if errors.Is(err, unix.ENOENT) { // with O_CREAT, the kernel may refuse another user's file even to root
			fd, err = unix.Open(path, flags|unix.O_CREAT, uint32(mode.Perm()))
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		f := os.NewFile(uintptr(fd), path)
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, ErrLocked
			}
			return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
		}
		var locked, named unix.Stat_t
		if unix.Fstat(fd, &locked) == nil && unix.Lstat(path, &named) == nil && fileIDOf(&locked).sameFile(fileIDOf(&named)) {
			return f, nil
		}
		f.Close() // its former owner has removed this file: try again with a new one
	}
}
