package transport

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
)

// Key is a network key: 32 random bytes that make their holder a member of the
// network. The zero Key is no key; Listen refuses it. A Key never shows its
// bytes, whichever way it is printed or logged, alone or inside another value.
type Key struct {
	// secret is a closure because fmt, which calls no methods on unexported fields
	// of other types, follows pointers in them.
	secret func() []byte
}

const (
	keySize   = 32
	keyPrefix = "achkey1-"
	// maxKeyFile bounds what is read of a key file, to name the error instead
	// of reading a device for ever.
	maxKeyFile = 1 << 10
)

// NewKey makes a new random network key.
func NewKey() Key {
	b := make([]byte, keySize)
	rand.Read(b) // never fails
	return keyOf(b)
}

func keyOf(b []byte) Key { return Key{secret: func() []byte { return b }} }

// ReadKey reads the key file at path. A missing file gives fs.ErrNotExist, a file
// that others may read or write fs.ErrPermission; the errors name the cure.
func ReadKey(path string) (Key, error) {
	// Without O_NONBLOCK a FIFO at this path would block for ever.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Key{}, fmt.Errorf("network key %s: %w: make one with `achbridge key new`, or copy it from another host of the network", path, fs.ErrNotExist)
	}
	if err != nil {
		return Key{}, fmt.Errorf("network key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Key{}, fmt.Errorf("network key: %w", err)
	}
	if !info.Mode().IsRegular() {
		return Key{}, fmt.Errorf("network key %s: not a regular file", path)
	}
	if loose := info.Mode().Perm() & 0o077; loose != 0 {
		return Key{}, fmt.Errorf("network key %s: %w: mode %04o lets others at it: chmod 600 %s",
			path, fs.ErrPermission, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return Key{}, fmt.Errorf("network key: %w", err)
	}
	k, err := parseKey(string(text))
	if err != nil {
		return Key{}, fmt.Errorf("network key %s: %w", path, err)
	}
	return k, nil
}

// Write stores the key at path with mode 0600. It never overwrites: an existing
// file gives fs.ErrExist. The directory must exist.
func (k Key) Write(path string) error {
	if k.secret == nil {
		return fmt.Errorf("network key %s: no key to write", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("network key %s: %w and is kept: remove it first, or choose another path", path, fs.ErrExist)
	}
	if err != nil {
		return fmt.Errorf("network key: %w", err)
	}
	_, err = f.WriteString(k.text())
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		os.Remove(path) // half a key is worse than none
		return fmt.Errorf("network key: %w", err)
	}
	return nil
}

// Network names the network this key belongs to: 8 hexadecimal digits of the
// SHA-256 of the authority's public key. It is public and reveals nothing of the
// key. Empty for the zero Key.
func (k Key) Network() string {
	if k.secret == nil {
		return ""
	}
	return networkOf(k.authority())
}

// String says which network the key belongs to, never the key.
func (k Key) String() string {
	if k.secret == nil {
		return "no network key"
	}
	return "key of network " + k.Network()
}

// Format prints String for every verb and flag.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue logs String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// text is the form of the key in its file.
func (k Key) text() string {
	return keyPrefix + base64.RawURLEncoding.EncodeToString(k.secret()) + "\n"
}

var errKeyText = errors.New(`not a key file: want one line "achkey1-" and 43 characters, as written by ` + "`achbridge key new`")

// parseKey parses the text of a key file. Its errors never repeat the text.
func parseKey(text string) (Key, error) {
	line := strings.TrimRight(text, " \t\r\n")
	encoded, ok := strings.CutPrefix(line, keyPrefix)
	if !ok {
		return Key{}, errKeyText
	}
	// Strict: one key has one spelling. DecodeString itself skips \r and \n.
	if strings.ContainsAny(encoded, "\r\n") {
		return Key{}, errKeyText
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(b) != keySize {
		return Key{}, errKeyText
	}
	return keyOf(b), nil
}
