package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"achbridge/bridge/secret"
)

// ReadKey reads the key file at path. It returns fs.ErrNotExist for a missing file, and
// fs.ErrPermission for a file that others may read or write. The errors contain a fix.
func ReadKey(path string) (Key, error) {
	text, err := secret.Read("network key", path)
	if errors.Is(err, fs.ErrNotExist) {
		return Key{}, fmt.Errorf("network key %s: no such file: make one with `achbridge key new`, or copy it from another host of the network%.0w", path, fs.ErrNotExist)
	}
	if err != nil {
		return Key{}, err
	}
	k, err := ParseKey(text)
	if err != nil {
		return Key{}, fmt.Errorf("network key %s: %w", path, err)
	}
	return k, nil
}

// Write stores the key at path with mode 0600. It never overwrites a file, but returns
// fs.ErrExist. The directory must exist.
func (k Key) Write(path string) error { return k.write(path, nil) }

// write stores the key like Write. If prepare is not nil, write calls it with the open file
// before it closes the file.
func (k Key) write(path string, prepare func(*os.File) error) error {
	if k.keyring == nil {
		return fmt.Errorf("network key %s: no key to write", path)
	}
	return secret.Write("network key", path, k.text(), prepare)
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
