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

// ReadKey reads the network key; its errors say how to get one.
func ReadKey(path string) (trust.Key, error) {
	key, err := trust.ReadKey(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return key, ui.Usage(fmt.Errorf("key %s: there is none", path),
			"achbridge key new, or copy the file from a host of your network")
	case errors.Is(err, fs.ErrPermission):
		return key, ui.Usage(err, "chmod 600 "+path+" as its owner, or name your own: --key FILE")
	case err != nil:
		return key, ui.Usage(err, "copy the file again from a host of your network")
	}
	return key, nil
}

// ReadRevocations reads a file with a list; there is none without a file.
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

// ReplaceFile writes a file in the place of another: a reader finds the old one or the
// new one.
func ReplaceFile(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".achbridge-")
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

// RevokedFile is where a host keeps the list of revocations that it was told, among
// its state.
const RevokedFile = "revoked"

// RevokedBeside is the list of revocations that an operator puts beside the key file.
func RevokedBeside(key string) string { return key + ".revoked" }

const (
	WarnAhead = 30 * 24 * time.Hour // of the end of a certificate
	WarnEvery = 24 * time.Hour
)

// NameBy gives the host the name that its key is for. Another name is an error.
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
