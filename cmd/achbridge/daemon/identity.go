package daemon

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/config"
)

// nodeIdentity returns the id of the node of host, which peers know again after a
// restart. It comes from a number that is kept in dir and from the name: of hosts made
// from one disk image, which have the number in common, each has an id of its own as
// soon as it has a name of its own. When the number cannot be kept the id is good for
// this run only and err says why.
func nodeIdentity(dir, host string) (trust.NodeID, error) {
	number, err := keptNumber(filepath.Join(dir, "node"))
	sum := sha256.Sum256(append(number[:], host...))
	return trust.NodeID(sum[:len(number)]), err
}

// keptSecret returns what is kept in dir as transport.Config.ResetSecret. When it cannot
// be kept it is good for this run only and err says why.
func keptSecret(dir string) (secret [32]byte, err error) {
	rand.Read(secret[:]) // never fails
	path := filepath.Join(dir, "reset")
	kept, err := os.ReadFile(path)
	if err == nil && len(kept) == len(secret) {
		return [32]byte(kept), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return secret, err
	}
	return secret, config.ReplaceFile(path, secret[:], 0o600)
}

func keptNumber(path string) (trust.NodeID, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 { // the power may have failed before there was more
		return newNumber(path)
	}
	if err != nil {
		return randomIdentity(), err
	}
	number, err := trust.ParseNodeID(strings.TrimSpace(string(text)))
	if err != nil {
		return randomIdentity(), fmt.Errorf("%s: %w; remove the file to get a new one", path, err)
	}
	return number, nil
}

func newNumber(path string) (trust.NodeID, error) {
	id := randomIdentity()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return id, err
	}
	return id, config.ReplaceFile(path, []byte(id.String()+"\n"), 0o644)
}

func randomIdentity() (id trust.NodeID) {
	rand.Read(id[:])
	return id
}
