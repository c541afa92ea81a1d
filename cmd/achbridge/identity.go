package main

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"achbridge/bridge/transport"
)

// nodeIdentity returns the id of the node of host, which peers know again after a
// restart. It comes from a number that is kept in dir and from the name: of hosts made
// from one disk image, which have the number in common, each has an id of its own as
// soon as it has a name of its own. When the number cannot be kept the id is good for
// this run only and err says why.
func nodeIdentity(dir, host string) (transport.NodeID, error) {
	number, err := keptNumber(filepath.Join(dir, "node"))
	sum := sha256.Sum256(append(number[:], host...))
	return transport.NodeID(sum[:len(number)]), err
}

func keptNumber(path string) (transport.NodeID, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newNumber(path)
	}
	if err != nil {
		return randomIdentity(), err
	}
	number, err := transport.ParseNodeID(strings.TrimSpace(string(text)))
	if err != nil {
		return randomIdentity(), fmt.Errorf("%s: %w; remove the file to get a new one", path, err)
	}
	return number, nil
}

func newNumber(path string) (transport.NodeID, error) {
	id := randomIdentity()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return id, err
	}
	return id, os.WriteFile(path, []byte(id.String()+"\n"), 0o644)
}

func randomIdentity() (id transport.NodeID) {
	rand.Read(id[:])
	return id
}
