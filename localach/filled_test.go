package localach

import "testing"

// A large file can have thousands of names, so the cost of opening each and the total are bounded.
func TestOnlySmallMappingsAreFilled(t *testing.T) {
	d := tempDir(t)
	for name, c := range map[string]struct {
		geom   Geometry
		filled bool
	}{
		"small": {Geometry{FrameCount: 16, FrameSize: 4096}, true},
		"giant": {Geometry{FrameCount: 16, FrameSize: maxFilled / 16}, false}, // larger than maxFilled with its index
	} {
		made, err := d.Create(name, CreateConfig{Geometry: c.geom})
		if err != nil {
			t.Fatal(err)
		}
		made.Close()
		before := filledAll.Load()
		var all []*Channel
		for range 3 {
			ch, err := d.TryOpen(name)
			if err != nil {
				t.Fatal(err)
			}
			if filled := ch.filled != 0; filled != c.filled {
				t.Errorf("%s: filled at once: %v, want %v", name, filled, c.filled)
			}
			all = append(all, ch)
		}
		if got, want := filledAll.Load()-before, 3*all[0].filled; got != want {
			t.Errorf("%s: got %d bytes counted, want %d", name, got, want)
		}
		for _, ch := range all {
			ch.Close()
		}
		if filledAll.Load() != before {
			t.Errorf("%s: bytes are counted that are mapped no more", name)
		}
	}
	filledAll.Add(maxFilledAll)
	defer filledAll.Add(-maxFilledAll)
	ch, err := d.TryOpen("small")
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if ch.filled != 0 {
		t.Error("filled although there was much already")
	}
}
