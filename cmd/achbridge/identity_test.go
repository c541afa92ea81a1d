package main

import (
	"os"
	"path/filepath"
	"testing"

	"achbridge/bridge/transport"
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
	if err == nil || id == (transport.NodeID{}) {
		t.Errorf("got %v, %v, want an id for this run and an error", id, err)
	}
	if text, _ := os.ReadFile(path); string(text) != "0123\n" {
		t.Errorf("the file was changed to %q", text)
	}
}

func TestIdentityWithoutAPlaceIsGoodForThisRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := nodeIdentity(file, "krang")
	if err == nil || id == (transport.NodeID{}) {
		t.Errorf("got %v, %v, want an id and an error", id, err)
	}
}
