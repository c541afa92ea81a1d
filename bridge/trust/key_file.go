package trust

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxKeyFile is the most bytes that are read from a key file.
const maxKeyFile = 16 << 10

// ReadKey reads the key file at path. It returns fs.ErrNotExist for a missing file, and
// fs.ErrPermission for a file that others may read or write. The errors contain a fix.
func ReadKey(path string) (Key, error) {
	text, err := readSecret("network key", path)
	if errors.Is(err, fs.ErrNotExist) {
		return Key{}, fmt.Errorf("network key %s: there is no such file: make one with `achbridge key new`, or copy it from another host of the network%.0w", path, fs.ErrNotExist)
	}
	if err != nil {
		return Key{}, err
	}
	k, err := parseKey(text)
	if err != nil {
		return Key{}, fmt.Errorf("network key %s: %w", path, err)
	}
	return k, nil
}

// readSecret reads a regular file that only its owner may access.
func readSecret(what, path string) (string, error) {
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
	if loose := info.Mode().Perm() & 0o077; loose != 0 {
		return "", fmt.Errorf("%s %s: %w: mode %04o lets others at it: chmod 600 %s",
			what, path, fs.ErrPermission, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return string(text), nil
}

// Write stores the key at path with mode 0600. It never overwrites a file, but returns
// fs.ErrExist. The directory must exist.
func (k Key) Write(path string) error { return k.write(path, nil) }

// write stores the key like Write. If prepare is not nil, write calls it with the open file
// before it closes the file.
func (k Key) write(path string, prepare func(*os.File) error) error {
	if k.held == nil {
		return fmt.Errorf("network key %s: no key to write", path)
	}
	return writeSecret("network key", path, k.text(), prepare)
}

func writeSecret(what, path, text string, prepare func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s %s: there is one already, which is kept: remove it first, or choose another path%.0w", what, path, fs.ErrExist)
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
		os.Remove(path) // an incomplete key is worse than none
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Replace atomically replaces the existing key file at path: a reader gets the old key or the
// new one. It keeps the owner of the file.
func (k Key) Replace(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("network key: %w", err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".achbridge-key-")
	if err != nil {
		return fmt.Errorf("network key: %w", err)
	}
	defer os.RemoveAll(dir)
	next, owner := filepath.Join(dir, "key"), info.Sys().(*syscall.Stat_t)
	// Chown the open file, not its path: a less trusted user may own the directory and put a link there.
	if err := k.write(next, func(f *os.File) error { return f.Chown(int(owner.Uid), int(owner.Gid)) }); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("network key: %w", err)
	}
	return nil
}
