package localach_test

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"achbridge/localach"
)

func TestPutFirstPutsIntoUnusedChannel(t *testing.T) {
	d := privateDir(t)
	c := createIn(t, d, "map", 4, 16)
	var succeeded atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			w := c.Writer()
			defer w.Close()
			switch seq, err := w.PutFirst([]byte("kept")); {
			case err == nil && seq == 1:
				succeeded.Add(1)
			case !errors.Is(err, localach.ErrHasFrames):
				t.Errorf("PutFirst = %d, %v, want 1, or ErrHasFrames", seq, err)
			}
		})
	}
	group.Wait()
	if n := succeeded.Load(); n != 1 || c.LastSeq() != 1 {
		t.Errorf("%d of 8 first puts succeeded, last_seq is %d, want 1 and 1", n, c.LastSeq())
	}
	w := c.Writer()
	defer w.Close()
	if seq, err := w.Put([]byte("new")); err != nil || seq != 2 {
		t.Errorf("Put after PutFirst = %d, %v, want 2", seq, err)
	}
	if _, err := w.PutFirst([]byte("kept")); !errors.Is(err, localach.ErrHasFrames) {
		t.Errorf("PutFirst after Put = %v, want ErrHasFrames", err)
	}
}

func TestCreatedChannelHasFirstFrameAndGroup(t *testing.T) {
	d := privateDir(t)
	group := os.Getegid()
	if groups, err := os.Getgroups(); err == nil && len(groups) > 0 {
		group = groups[len(groups)-1]
	}
	if os.Geteuid() == 0 {
		group = 12345
	}
	c, err := d.Create("map", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: 16}, Mode: 0o660, Group: &group, First: []byte("kept")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, 16)
	if n, err := c.Reader().Last(buf); err != nil || string(buf[:n]) != "kept" || c.LastSeq() != 1 {
		t.Errorf("Last = %q, %v, and last_seq is %d, want kept and 1", buf[:n], err, c.LastSeq())
	}
	info, err := os.Stat(pathOf(d, "map"))
	if err != nil {
		t.Fatal(err)
	}
	if gid := int(info.Sys().(*syscall.Stat_t).Gid); gid != group || info.Mode().Perm() != 0o660 {
		t.Errorf("got group %d and mode %04o, want %d and 0660", gid, info.Mode().Perm(), group)
	}
	large := localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 1, FrameSize: 16}, First: make([]byte, 17)}
	if _, err := d.Create("small", large); !errors.Is(err, localach.ErrTooLarge) {
		t.Errorf("Create with a first frame that does not fit = %v, want ErrTooLarge", err)
	}
}
