package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/ui"
)

// ReadKey reads the network key. Its errors include how to get a key.
func ReadKey(path string) (trust.Key, error) {
	key, err := trust.ReadKey(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return key, ui.NotFound(fmt.Errorf("key %s: no such file", path),
			"achbridge key new, or copy the file from a host of your network")
	case errors.Is(err, fs.ErrPermission):
		return key, ui.Usage(err, "chmod 600 "+path+" as its owner, or name your own: --key FILE")
	case err != nil:
		return key, ui.Usage(err, "copy the file again from a host of your network")
	}
	return key, nil
}

// ReadRevocations reads a revocation list. It returns nil when there is no such file.
func ReadRevocations(path string) (*trust.Revocations, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := trust.ParseRevocations(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// DraftPattern matches the temporary names of files that ReplaceFile has not renamed yet. Such a file remains if the process is killed.
const DraftPattern = ".achbridge-*"

// ReplaceFile writes a file atomically: a reader sees the old content or the new one.
func ReplaceFile(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), DraftPattern)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// KeepFile is like ReplaceFile for a file in the state directory. It creates the directory if necessary.
func KeepFile(path string, text []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return ReplaceFile(path, text, mode)
}

// RevokedFile is the file in the state directory in which a host keeps the newest revocation
// list that it has received.
const RevokedFile = "revoked"

// RevokedBeside returns the path of the revocation list that an operator puts into the
// directory of the key file.
func RevokedBeside(key string) string { return key + ".revoked" }

const (
	WarnAhead = 30 * 24 * time.Hour // time before the end of a certificate at which warnings begin
	WarnEvery = 24 * time.Hour
)

// NameBy sets the host's name from its certificate. It returns an error when the
// configuration has another name.
func (c *Config) NameBy(key trust.Key) error {
	switch {
	case key.Host() == "" || c.Name == key.Host():
		return nil
	case c.from["name"] == (origin{}):
		c.Name = key.Host()
		return nil
	}
	return ui.Usage(fmt.Errorf("name %q: the key of this host is for %q", c.Name, key.Host()),
		"name: "+key.Host()+", or achbridge ca issue "+c.Name)
}
