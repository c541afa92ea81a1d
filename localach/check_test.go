package localach

import (
	"errors"
	"os"
	"testing"
)

func TestCheckDetectsRemovedFile(t *testing.T) {
	d := tempDir(t)
	c := create(t, d, Geometry{})
	if err := d.Unlink("imu"); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); !errors.Is(err, ErrUnlinked) {
		t.Errorf("got %v, want %v", err, ErrUnlinked)
	}
	create(t, d, Geometry{})
	if err := c.Check(); !errors.Is(err, ErrReplaced) {
		t.Errorf("got %v, want %v", err, ErrReplaced)
	}
}

// Following a symbolic link into a hung network mount would block.
func TestCheckDoesNotFollowSymlink(t *testing.T) {
	d := tempDir(t)
	c := create(t, d, Geometry{})
	if err := errors.Join(os.Rename(d.Path("imu"), d.Path("away")), os.Symlink(d.Path("away"), d.Path("imu"))); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); !errors.Is(err, ErrReplaced) {
		t.Errorf("got %v, want %v", err, ErrReplaced)
	}
}

func TestReplaceCreatesNewFile(t *testing.T) {
	d := tempDir(t)
	old := create(t, d, Geometry{})
	c, err := d.Create("imu", CreateConfig{Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := old.Check(); !errors.Is(err, ErrReplaced) {
		t.Errorf("got %v, want %v", err, ErrReplaced)
	}
	if old.Epoch() == c.Epoch() {
		t.Error("both files have one epoch")
	}
}

// reinitialise initialises the channel's file again in place, as `ach mk -t` does.
func reinitialise(t *testing.T, c *Channel, g Geometry) {
	t.Helper()
	if err := os.Truncate(c.dir.Path(c.name), int64(g.bytes())); err != nil {
		t.Fatal(err)
	}
	clear(c.memory[:min(len(c.memory), int(g.bytes()))])
	m := mappingOf(c.memory, g, kind{})
	if s := m.init(c.name); s != statusOK {
		t.Fatal(s)
	}
}

func TestCheckDetectsReinitialisation(t *testing.T) {
	for name, g := range map[string]Geometry{"same geometry": {8, 64}, "another": {16, 32}, "smaller": {4, 64}} {
		c := create(t, tempDir(t), Geometry{8, 64})
		w, r, buf := c.Writer(), c.Reader(), make([]byte, 64)
		for range 3 {
			put(t, w, "old")
		}
		if _, err := r.Next(buf, 0); err != nil {
			t.Fatal(err)
		}
		reinitialise(t, c, g)
		if _, err := r.Next(buf, 0); !errors.Is(err, ErrReinitialised) {
			t.Errorf("%s: Next: got %v, want %v", name, err, ErrReinitialised)
		}
		if err := c.Check(); !errors.Is(err, ErrReinitialised) {
			t.Errorf("%s: Check: got %v, want %v", name, err, ErrReinitialised)
		}
		if _, err := w.Put([]byte("x")); !errors.Is(err, ErrReinitialised) {
			t.Errorf("%s: Put: got %v, want %v", name, err, ErrReinitialised)
		}
		again, err := c.Reopen()
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if again.Epoch() == c.Epoch() {
			t.Errorf("%s: the epoch is still %x", name, c.Epoch())
		}
		put(t, again.Writer(), "new")
		n, err := again.Reader().Next(buf, 0)
		wantFrame(t, buf, n, err, "new")
	}
}

func TestCheckDetectsDecreasedSequenceNumbers(t *testing.T) {
	c := create(t, tempDir(t), Geometry{8, 64})
	w := c.Writer()
	put(t, w, "1")
	put(t, w, "2")
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	reinitialise(t, c, Geometry{8, 64})
	if err := c.Check(); !errors.Is(err, ErrReinitialised) {
		t.Errorf("got %v, want %v", err, ErrReinitialised)
	}
}

func TestEpochIsNeverZeroAndDiffersByIdentity(t *testing.T) {
	seen := map[uint64]bool{}
	for i := range uint64(1000) {
		for _, id := range []fileID{{inode: i}, {inode: i, device: 1}, {inode: i, createdAt: 1}} {
			e := id.epoch(int(i % 3))
			if uint32(e) == 0 || seen[e] {
				t.Fatalf("%+v: got %x", id, e)
			}
			seen[e] = true
		}
	}
}
