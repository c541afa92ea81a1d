// Package secret reads and writes small files that only their owner may access.
package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// maxSize is the maximum number of bytes that are read from a file.
const maxSize = 16 << 10

// Read reads a regular file that only its owner may access. Errors begin with what. They wrap fs.ErrNotExist for a missing
// file, and fs.ErrPermission for a file that others may read or write.
func Read(what, path string) (string, error) {
	// Without O_NONBLOCK a FIFO at this path would block forever.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s %s: not a regular file", what, path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", fmt.Errorf("%s %s: %w: mode %04o gives others access: chmod 600 %s", what, path, fs.ErrPermission, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSize))
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return string(text), nil
}

// Write stores text at path with mode 0600. It never overwrites a file, but returns fs.ErrExist. If prepare is not nil, Write
// calls it with the open file before it closes the file. Errors begin with what.
func Write(what, path, text string, prepare func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s %s: it exists already, and is kept: remove it first, or choose another path%.0w", what, path, fs.ErrExist)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	_, err = f.WriteString(text)
	if prepare != nil {
		err = errors.Join(err, prepare(f))
	}
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		os.Remove(path) // an incomplete secret is worse than none
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
