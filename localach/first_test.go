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

// Of writers that put after the same frame, one succeeds, and a put of another program in between is never followed.
func TestPutAfterPutsOnlyAfterThatFrame(t *testing.T) {
	d := privateDir(t)
	c := createIn(t, d, "map", 4, 16)
	for last := range uint64(3) {
		var succeeded atomic.Int32
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				w := c.Writer()
				defer w.Close()
				switch seq, err := w.PutAfter(last, []byte("changed")); {
				case err == nil && seq == last+1:
					succeeded.Add(1)
				case !errors.Is(err, localach.ErrMoved):
					t.Errorf("PutAfter(%d) = %d, %v, want %d, or ErrMoved", last, seq, err, last+1)
				}
			})
		}
		group.Wait()
		if n := succeeded.Load(); n != 1 || c.LastSeq() != last+1 {
			t.Errorf("%d of 8 puts after frame %d succeeded, last_seq is %d, want 1 and %d", n, last, c.LastSeq(), last+1)
		}
	}
	w := c.Writer()
	defer w.Close()
	if seq, err := w.Put([]byte("new")); err != nil || seq != 4 {
		t.Errorf("Put after PutAfter = %d, %v, want 4", seq, err)
	}
	for _, last := range []uint64{0, 3, 5} {
		if _, err := w.PutAfter(last, []byte("changed")); !errors.Is(err, localach.ErrMoved) {
			t.Errorf("PutAfter(%d) when frame 4 is the newest = %v, want ErrMoved", last, err)
		}
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
