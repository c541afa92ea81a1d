package mirror

import (
	"strings"
	"testing"

	"achbridge/localach"
)

func TestMirrorsUseAtMostHalfOfFreeMemory(t *testing.T) {
	free := int64(1000)
	s := &Space{Free: func(int64) (int64, error) { return free, nil }}
	take := func(size int64) error {
		err := s.take(size, "")
		if err == nil {
			free -= size
		}
		return err
	}
	if err := take(300); err != nil {
		t.Errorf("300 of 1000: got %v, want room", err)
	}
	if err := take(300); err == nil {
		t.Error("600 of 1000: got room, want none")
	}
	if err := take(200); err != nil {
		t.Errorf("500 of 1000: got %v, want room", err)
	}
	s.add(-300, "")
	free += 300
	if err := take(300); err != nil {
		t.Errorf("300 given back: got %v, want room", err)
	}
}

func TestLargerFileWithoutRoomIsRefused(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.Put(came(1, frame(1, 64)))
	m.Space.Free = func(int64) (int64, error) { return 20_000, nil }
	m.Put(came(2, frame(2, 5000)))
	if s := m.Status(0, Reading{}, ""); s.Seq != 1 || !strings.Contains(s.Reason, "m: no room in") {
		t.Errorf("got frame %d, reason %q; want the small file kept and a reason that names it", s.Seq, s.Reason)
	}
}

func TestLargeMirrorsReleaseQuota(t *testing.T) {
	const mib = 1 << 20
	s := &Space{}
	s.Free = func(int64) (int64, error) { return 80*mib - s.used, nil }
	for _, step := range []struct {
		take int64
		host string
		fits bool
	}{
		{20 * mib, "robot", true}, {2 * mib, "robot", false}, {mib, "robot", true}, {2 * mib, "", true},
		{10 * mib, "arm", true}, {2 * mib, "arm", false}, {-20 * mib, "robot", true}, {2 * mib, "arm", true},
		{-10 * mib, "arm", true}, {-2 * mib, "arm", true}, {20 * mib, "robot", true}, {16 * mib, "", true}, {2 * mib, "", false},
	} {
		if step.take < 0 {
			s.add(step.take, step.host)
			continue
		}
		if err := s.take(step.take, step.host); (err == nil) != step.fits {
			t.Errorf("%d MiB for %q: got %v, want room: %v", step.take/mib, step.host, err, step.fits)
		}
	}
}

// Small files use more memory than their content, because memory is used in pages.
func TestSmallMirrorsCountInWholePages(t *testing.T) {
	dir := testDir(t)
	g := localach.Geometry{FrameCount: 1, FrameSize: 1}
	ch, err := dir.Create("small", localach.CreateConfig{Geometry: g})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if got := FileBytes(g); got < 4096 {
		t.Errorf("%v counts as %d bytes, want a page", g, got)
	}
}
