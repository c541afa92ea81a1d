package demo

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// home is the directory of a demo in shared memory, with the channels of both hosts and the files of their daemons. The
// demo holds a lock on it, which ends with the process.
type home struct {
	path string
	lock *os.File
}

const homePattern = ".achbridge.demo-*"

// newHome makes a home below dir, and removes the homes of demos that were killed.
func newHome(dir localach.Dir) (home, error) {
	removeAbandoned(dir)
	for {
		path, err := os.MkdirTemp(string(dir), homePattern)
		if err != nil {
			return home{}, err
		}
		lock, err := lockHome(path)
		if err != nil {
			return home{}, err
		}
		if lock != nil { // nil if another demo has just removed the directory as an abandoned one
			return home{path, lock}, nil
		}
	}
}

// removeAbandoned removes the homes that no living demo locks. It leaves those of other users.
func removeAbandoned(dir localach.Dir) {
	paths, _ := filepath.Glob(filepath.Join(string(dir), homePattern)) // fails only if the pattern is invalid
	for _, path := range paths {
		if lock, err := lockHome(path); err == nil && lock != nil {
			home{path, lock}.remove()
		}
	}
}

// lockHome locks a home. It returns nil if another process has locked or removed it.
func lockHome(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
		locked, err := f.Stat()
		if there, gone := os.Lstat(path); err == nil && gone == nil && os.SameFile(locked, there) {
			return f, nil
		}
	}
	f.Close()
	return nil, nil
}

// remove removes the home, and then unlocks it, so that no other demo removes it at the same time.
func (h home) remove() {
	_ = os.RemoveAll(h.path)
	h.lock.Close()
}

// host makes the directories of a host and returns them: its channels, and the files of its daemon.
func (h home) host(name string) (channels localach.Dir, files string, err error) {
	channels, files = localach.Dir(filepath.Join(h.path, name)), filepath.Join(h.path, name+".files")
	for _, dir := range []string{string(channels), files} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return "", "", fmt.Errorf("directory of %s: %w", name, err)
		}
	}
	return channels, files, nil
}
