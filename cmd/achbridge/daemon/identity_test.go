package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"achbridge/bridge/trust"
)

func TestNodeKeepsItsIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := nodeIdentity(dir, "krang")
	if err != nil {
		t.Fatal(err)
	}
	again, err := nodeIdentity(dir, "krang")
	if err != nil || again != first {
		t.Errorf("got %v, %v, want %v", again, err, first)
	}
}

func TestHostsOfOneDiskImageAreTwoNodes(t *testing.T) {
	dir := t.TempDir()
	krang, err := nodeIdentity(dir, "krang")
	if err != nil {
		t.Fatal(err)
	}
	if atlas, err := nodeIdentity(dir, "atlas"); err != nil || atlas == krang {
		t.Errorf("got %v, %v, want another id than %v", atlas, err, krang)
	}
}

func TestDamagedIdentityIsReportedAndKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "node")
	if err := os.WriteFile(path, []byte("0123\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := nodeIdentity(dir, "krang")
	if err == nil || id == (trust.NodeID{}) {
		t.Errorf("got %v, %v, want an id for this run and an error", id, err)
	}
	if text, _ := os.ReadFile(path); string(text) != "0123\n" {
		t.Errorf("the file was changed to %q", text)
	}
}

// An empty file says nothing that could be lost. Whoever reads a new one never finds a part of it.
func TestEmptyIdentityIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "node")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(path)
	first, err := nodeIdentity(dir, "krang")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := nodeIdentity(dir, "krang"); err != nil || again != first {
		t.Errorf("got %v, %v, want %v", again, err, first)
	}
	if after, err := os.Stat(path); err != nil || os.SameFile(before, after) {
		t.Errorf("the file was written in place, %v", err)
	}
}

func TestIdentityWithoutAPlaceIsGoodForThisRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := nodeIdentity(file, "krang")
	if err == nil || id == (trust.NodeID{}) {
		t.Errorf("got %v, %v, want an id and an error", id, err)
	}
}

// It is a secret of the node alone: whoever has it can end the node's links.
func TestResetSecretIsKeptAndPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := keptSecret(dir)
	if err != nil || first == ([32]byte{}) {
		t.Fatalf("got %x, %v", first, err)
	}
	if again, err := keptSecret(dir); err != nil || again != first {
		t.Errorf("got another secret, %v", err)
	}
	path := filepath.Join(dir, "reset")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: got mode %v, %v, want 0600", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := keptSecret(dir)
	if err != nil || other == first || other == ([32]byte{}) {
		t.Errorf("in the place of a damaged one: got %x, %v, want a new one", other, err)
	}
	if again, err := keptSecret(dir); err != nil || again != other {
		t.Errorf("after that: got another secret, %v", err)
	}
	if secret, err := keptSecret(path); err == nil || secret == ([32]byte{}) {
		t.Errorf("without a place: got %x, %v, want one for this run and an error", secret, err)
	}
}
