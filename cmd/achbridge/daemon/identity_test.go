package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"achbridge/bridge"
	"achbridge/bridge/trust"
	"achbridge/testnet/await"
)

func TestNodeKeepsItsIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := nodeIdentity(dir, "krang", nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := nodeIdentity(dir, "krang", nil)
	if err != nil || again.id != first.id {
		t.Errorf("got %v, %v, want %v", again, err, first)
	}
}

func TestHostsWithOneDiskImageHaveDifferentNodeIDs(t *testing.T) {
	dir := t.TempDir()
	krang, err := nodeIdentity(dir, "krang", nil)
	if err != nil {
		t.Fatal(err)
	}
	if atlas, err := nodeIdentity(dir, "atlas", nil); err != nil || atlas.id == krang.id {
		t.Errorf("got %v, %v, want another id than %v", atlas, err, krang)
	}
}

func TestDamagedIdentityIsReportedAndKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "node")
	if err := os.WriteFile(path, []byte("0123\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := nodeIdentity(dir, "krang", nil)
	if err == nil || id.id == (trust.NodeID{}) {
		t.Errorf("got %v, %v, want an id for this run and an error", id, err)
	}
	if text, _ := os.ReadFile(path); string(text) != "0123\n" {
		t.Errorf("the file was changed to %q", text)
	}
}

// An empty file contains no identity that could be lost. The new file replaces the old one, so that
// a reader never finds a part of the new file.
func TestEmptyIdentityFileIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "node")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(path)
	first, err := nodeIdentity(dir, "krang", nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := nodeIdentity(dir, "krang", nil); err != nil || again.id != first.id {
		t.Errorf("got %v, %v, want %v", again, err, first)
	}
	if after, err := os.Stat(path); err != nil || os.SameFile(before, after) {
		t.Errorf("the file was written in place, want a new file: %v", err)
	}
}

func TestUnsavedIdentityIsValidForThisRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := nodeIdentity(file, "krang", nil)
	if err == nil || id.id == (trust.NodeID{}) {
		t.Errorf("got %v, %v, want an id and an error", id, err)
	}
}

// Only the node may know the reset secret: a program that has the secret can end the node's links.
func TestResetSecretIsSavedAndPrivate(t *testing.T) {
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
		t.Errorf("with a damaged file: got %x, %v, want a new secret", other, err)
	}
	if again, err := keptSecret(dir); err != nil || again != other {
		t.Errorf("after a damaged file: got another secret than before, %v", err)
	}
	if secret, err := keptSecret(path); err == nil || secret == ([32]byte{}) {
		t.Errorf("without a directory: got %x, %v, want a secret for this run and an error", secret, err)
	}
}

// fakeSys makes the sysfs of a machine with a network card for each address. "?" at the end marks an address as random.
func fakeSys(t *testing.T, serial string, cards ...string) string {
	t.Helper()
	sys := t.TempDir()
	write := func(file, text string) {
		path := filepath.Join(sys, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i, card := range cards {
		dir := fmt.Sprintf("class/net/eth%d/", i)
		address, random := strings.CutSuffix(card, "?")
		kind := "0"
		if random {
			kind = "1"
		}
		write(dir+"address", address)
		write(dir+"addr_assign_type", kind)
		write(dir+"device/uevent", "")
	}
	write("class/net/docker0/address", "02:42:00:00:00:01") // docker0 has no device
	write("class/net/docker0/addr_assign_type", "0")
	if serial != "" {
		write("class/dmi/id/board_serial", serial)
	}
	return sys
}

func TestHardwareIgnoresValuesThatMachinesShare(t *testing.T) {
	for what, c := range map[string]struct {
		sys  string
		want int
	}{
		"two cards and a serial number": {fakeSys(t, "MB-1234567", "aa:00:00:00:00:01", "aa:00:00:00:00:02"), 3},
		"a card with a random address":  {fakeSys(t, "", "aa:00:00:00:00:01?"), 0},
		"a placeholder text":            {fakeSys(t, "To be filled by O.E.M."), 0},
		"placeholder digits":            {fakeSys(t, "1234567890"), 0},
		"zeros":                         {fakeSys(t, "00000000"), 0},
		"a container":                   {t.TempDir(), 0},
	} {
		if got := hardware(c.sys); len(got) != c.want {
			t.Errorf("%s: got %d parts, want %d", what, len(got), c.want)
		}
	}
}

func TestNodeIDChangesOnlyOnAnotherMachine(t *testing.T) {
	const board, usb, other = "aa:00:00:00:00:01", "aa:00:00:00:00:02", "aa:00:00:00:00:03"
	for what, c := range map[string]struct {
		first, then, last string // paths from fakeSys; last may be empty
		moved             bool
	}{
		"reboot":               {fakeSys(t, "", board), fakeSys(t, "", board), "", false},
		"USB Wi-Fi swapped":    {fakeSys(t, "", board, usb), fakeSys(t, "", board, other), "", false},
		"swapped in two steps": {fakeSys(t, "", usb), fakeSys(t, "", board, usb), fakeSys(t, "", board), false},
		"disk moved":           {fakeSys(t, "MB-1234567", board), fakeSys(t, "MB-7654321", other), "", true},
		"nothing readable":     {fakeSys(t, "", board), t.TempDir(), fakeSys(t, "", board), false},
		"read later":           {t.TempDir(), fakeSys(t, "", board), "", false},
	} {
		dir := t.TempDir()
		first, err := nodeIdentity(dir, "robot", hardware(c.first))
		if err != nil {
			t.Fatal(err)
		}
		then, err := nodeIdentity(dir, "robot", hardware(c.then))
		if err != nil {
			t.Fatal(err)
		}
		if c.last != "" {
			if then, err = nodeIdentity(dir, "robot", hardware(c.last)); err != nil {
				t.Fatal(err)
			}
		}
		if moved := then.id != first.id; moved != c.moved || (then.before != trust.NodeID{}) != c.moved {
			t.Errorf("%s: got new node id %v, previous id %v, want new %v", what, moved, then.before, c.moved)
		}
		if known := first.hardware != "" && !c.moved; known && then.hardware != first.hardware {
			t.Errorf("%s: got hardware %q, want %q as before", what, then.hardware, first.hardware)
		}
		text, err := os.ReadFile(filepath.Join(dir, "node"))
		if err != nil || strings.Contains(string(text), "before") != c.moved {
			t.Errorf("%s: got file %q, %v, want a previous id: %v", what, text, err, c.moved)
		}
		if again, err := nodeIdentity(dir, "robot", hardware(c.then)); c.last == "" && (err != nil || again.id != then.id || again.before != trust.NodeID{}) {
			t.Errorf("%s: at the next start: got %+v, %v, want %v", what, again, err, then.id)
		}
	}
}

// In older versions the file node contained only the node id.
func TestNodeIDOfOlderVersionIsKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "node")
	number := randomIdentity()
	if err := os.WriteFile(path, []byte(number.String()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	before, err := nodeIdentity(dir, "robot", nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := nodeIdentity(dir, "robot", hardware(fakeSys(t, "", "aa:00:00:00:00:01")))
	if err != nil || after.id != before.id || after.hardware == "" {
		t.Errorf("got %+v, %v, want id %v and the hardware", after, err, before.id)
	}
}

func TestMachineFileRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "machines")
	log := slog.New(slog.DiscardHandler)
	want := map[string]bridge.Machine{"robot": {Hardware: [16]byte{1, 2}, Boot: [16]byte{3}}}
	f := newMachineFile(path, log)
	if got := f.read(); len(got) != 0 {
		t.Errorf("without a file: got %v, want none", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.run(ctx) })
	f.keep(map[string]bridge.Machine{"old": {}})
	f.keep(want)
	await.True(t, "the file", func() bool { return maps.Equal(newMachineFile(path, log).read(), want) })
	cancel()
	running.Wait()
	if err := os.WriteFile(path, []byte(`{"robot":{"hardware":"01","boot":"02"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := newMachineFile(path, log).read(); len(got) != 0 {
		t.Errorf("damaged file: got %v, want none", got)
	}
}
