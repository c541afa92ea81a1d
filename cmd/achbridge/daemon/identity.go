package daemon

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/config"
)

// identity identifies a node and the machine on which it runs.
type identity struct {
	id       trust.NodeID
	hardware string       // the part of the hardware that identifies the machine; empty if none is known
	before   trust.NodeID // the former number, if this start found the state directory of another machine; else zero
}

// nodeIdentity returns the identity of the node of host, by which peers recognize it after a
// restart. The id is made from a number that is kept in dir and from the name of the host. Hosts
// that were made from one disk image get different numbers if parts of their hardware can be read
// (parts, as hardware returns them). If not, they have different ids once they have different
// names. If the number cannot be kept, the id is good for this run only, and err is the reason.
func nodeIdentity(dir, host string, parts []string) (identity, error) {
	path := filepath.Join(dir, "node")
	kept, err := readNumber(path)
	who := identity{}
	known := func(part string) bool { return slices.Contains(kept.parts, part) }
	switch added := slices.DeleteFunc(slices.Clone(parts), known); {
	case errors.Is(err, fs.ErrNotExist):
		kept = numberFile{number: randomIdentity(), parts: parts}
		err = kept.write(path)
	case err != nil:
		kept = numberFile{number: randomIdentity(), parts: parts}
	case len(kept.parts) > 0 && len(parts) > 0 && len(added) == len(parts): // this machine has none of the kept parts
		who.before = kept.number
		kept = numberFile{number: randomIdentity(), parts: parts, before: who.before}
		err = kept.write(path)
	case len(added) > 0:
		kept.parts = append(kept.parts, added...)
		err = kept.write(path)
	}
	sum := sha256.Sum256(append(kept.number[:], host...))
	who.id = trust.NodeID(sum[:len(kept.number)])
	if len(kept.parts) > 0 {
		who.hardware = kept.parts[0]
	}
	return who, err
}

// numberFile is the content of the file node: a line with the number, one with the parts of the
// machine's hardware if any are known, and one with the former number if the file was copied. The
// first part identifies the machine as long as the number is kept.
type numberFile struct {
	number trust.NodeID
	parts  []string     // as hardware returns them
	before trust.NodeID // the number of the machine from which the file was copied, zero if it was not copied
}

const (
	hardwareLine = "hardware "
	beforeLine   = "before "
)

// readNumber reads the file node. It treats an empty file as missing: the power may have failed
// before the content was written.
func readNumber(path string) (f numberFile, err error) {
	text, err := os.ReadFile(path)
	if err == nil && len(text) == 0 {
		return f, fs.ErrNotExist
	}
	if err != nil {
		return f, err
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	if f.number, err = trust.ParseNodeID(strings.TrimSpace(first)); err != nil {
		return f, fmt.Errorf("%s: %w; remove the file to get a new one", path, err)
	}
	for line := range strings.Lines(rest) {
		if parts, ok := strings.CutPrefix(line, hardwareLine); ok {
			f.parts = strings.Fields(parts)
		}
		if number, ok := strings.CutPrefix(line, beforeLine); ok {
			f.before, _ = trust.ParseNodeID(strings.TrimSpace(number)) // nothing depends on it: people read it
		}
	}
	return f, nil
}

func (f numberFile) write(path string) error {
	text := f.number.String() + "\n"
	if len(f.parts) > 0 {
		text += hardwareLine + strings.Join(f.parts, " ") + "\n"
	}
	if f.before != (trust.NodeID{}) {
		text += beforeLine + f.before.String() + "\n"
	}
	return config.KeepFile(path, []byte(text), 0o644)
}

// keptSecret returns the secret for transport.Config.ResetSecret from dir, or creates one there.
// If the secret cannot be stored, it is valid for this run only, and err is the reason.
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
	return secret, config.KeepFile(path, secret[:], 0o600)
}

func randomIdentity() (id trust.NodeID) {
	rand.Read(id[:])
	return id
}
