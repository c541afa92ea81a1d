package localach

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestListReturnsUsableAndUnusableChannels(t *testing.T) {
	d := tempDir(t)
	for _, name := range []string{"b", "a.b", "z"} {
		c, err := d.Create(name, CreateConfig{Geometry: Geometry{4, 32}})
		if err != nil {
			t.Fatal(err)
		}
		put(t, c.Writer(), "frame")
		defer c.Close()
	}
	for path, content := range map[string]string{d.Path("empty"): "", d.Path("junk"): "not a channel at all", string(d) + "/other": "", d.Path(".hidden"): ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name string
		err  error
	}{{"a.b", nil}, {"b", nil}, {"empty", ErrHalfCreated}, {"junk", ErrCorrupt}, {"z", nil}}
	if len(list) != len(want) {
		t.Fatalf("got %+v, want %v", list, want)
	}
	for i, w := range want {
		got := list[i]
		if got.Name != w.name || !errors.Is(got.Err, w.err) {
			t.Errorf("got %s, %v, want %s, %v", got.Name, got.Err, w.name, w.err)
		}
		if w.err == nil && (got.Geometry != Geometry{4, 32} || got.LastSeq != 1 || got.Mirror || got.Inode == 0) {
			t.Errorf("got %+v", got)
		}
	}
}

func TestListDoesNotChangeChannels(t *testing.T) {
	d := tempDir(t)
	create(t, d, Geometry{})
	before, err := os.ReadFile(d.Path("imu"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.List(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(d.Path("imu"))
	if err != nil || string(after) != string(before) {
		t.Errorf("the file changed, or: %v", err)
	}
}

func TestListOfMissingDirectoryFails(t *testing.T) {
	if _, err := Dir("/nonexistent").List(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
}

func TestUnlinkRemovesName(t *testing.T) {
	d := tempDir(t)
	create(t, d, Geometry{})
	if err := d.Unlink("imu"); err != nil {
		t.Fatal(err)
	}
	if err := d.Unlink("imu"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
}

func TestCreateFailsWithoutSpace(t *testing.T) {
	var st unix.Statfs_t
	if err := unix.Statfs(string(Shm), &st); err != nil {
		t.Fatal(err)
	}
	if int64(st.Bavail)*st.Bsize > maxBytes {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
			t.Logf("not tested here: needs root to mount a small tmpfs: %v", err)
			return
		}
		defer unix.Unmount(dir, unix.MNT_DETACH)
		_, err := Dir(dir).Create("big", CreateConfig{Geometry: Geometry{16, 65536}})
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "no room") {
			t.Errorf("got %v, want no room", err)
		}
	}
}
