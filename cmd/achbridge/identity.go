package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"achbridge/bridge/transport"
)

// nodeIdentity returns the id of this node, which it keeps in dir so that
// peers know the node again after a restart. When it cannot be kept the id is
// good for this run only and err says why.
func nodeIdentity(dir string) (transport.NodeID, error) {
	path := filepath.Join(dir, "node")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newIdentity(path)
	}
	if err != nil {
		return randomIdentity(), err
	}
	id, err := transport.ParseNodeID(strings.TrimSpace(string(text)))
	if err != nil {
		return randomIdentity(), fmt.Errorf("%s: %w; remove the file to get a new one", path, err)
	}
	return id, nil
}

func newIdentity(path string) (transport.NodeID, error) {
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
