package mux

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// lockFile locks the output of a mux, so that no other process runs a mux with it. The file stays in the channel
// directory, since removing it would let two processes lock two files. The lock ends with the process.
func lockFile(dir localach.Dir, output string) (*os.File, error) {
	path := string(dir) + "/.achbridge.mux-" + output
	const flags = unix.O_RDWR | unix.O_CLOEXEC | unix.O_NOFOLLOW
	fd, err := unix.Open(path, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		fd, err = unix.Open(path, flags|unix.O_CREAT, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be locked: %w; remove this file, which another user has made, or choose another output", output, &os.PathError{Op: "open", Path: path, Err: err})
	}
	f := os.NewFile(uintptr(fd), path)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: another process runs a mux with this output; end it, or choose another output", output)
		}
		return nil, fmt.Errorf("%s cannot be locked: %w", output, err)
	}
	return f, nil
}
