package mirror

import (
	"errors"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/localach"
	"achbridge/localach/damage"
	"achbridge/testnet/await"
	"achbridge/wire"
)

// testMerge returns mirrors of a merge into channel all, one for each host.
func testMerge(t *testing.T, dir localach.Dir, hosts ...string) (output *Mirror, mirrors []*Mirror) {
	t.Helper()
	var work sync.WaitGroup
	cfg := bareMirror(dir, "all", work.Go).Config
	cfg.Host, cfg.IsMerge = "pc", true
	output = New(cfg, rule.MergeQoS(), nil)
	for _, host := range hosts {
		cfg := cfg
		cfg.Name, cfg.Host, cfg.Channel, cfg.Into, cfg.IsMerge = "all/"+host, host, "event", output, false
		mirrors = append(mirrors, New(cfg, rule.QoS{Mode: rule.Every}, nil))
	}
	t.Cleanup(func() {
		for _, m := range append(mirrors, output) {
			m.Close(func() {})
		}
		work.Wait()
	})
	for _, m := range mirrors {
		feedMerged(t, m)
	}
	return output, mirrors
}

// feedMerged subscribes a mirror of a merge to epoch 1. It returns the number of the newest frame of its origin in the output.
func feedMerged(t *testing.T, m *Mirror) (have uint64) {
	t.Helper()
	c := wire.Channel{Name: "event", FrameCount: 16, FrameSize: 64, Epoch: 1}
	if err := m.Into.Open(c, [16]byte{1}, "", rule.MergeQoS()); err != nil {
		t.Fatal(err)
	}
	if err := m.Open(c, [16]byte{2}, "", rule.QoS{Mode: rule.Every}); err != nil {
		t.Fatal(err)
	}
	have, _ = m.Subscribe(&Feed{Epoch: 1, Run: 1}, rule.QoS{Mode: rule.Every})
	if _, err := m.Begin(1, max(1, have), have); err != nil {
		t.Fatal(err)
	}
	return have
}

func putMerged(t *testing.T, m *Mirror, seq uint64) {
	t.Helper()
	if !m.PutInOrder(Arrival{From: m.source.feed, Epoch: 1, Seq: seq, Data: frame(seq, 64)}, func() (Reading, bool) { return Reading{}, true }) {
		t.Fatalf("%s: frame %d was not put", m.Name, seq)
	}
}

// A daemon is killed before or after a put, and the output also has frames of other hosts. After the restart, no frame is put twice
// or omitted, even if the first put is of another host's frame.
func TestMergeRecordsNewestFrameOfEachHost(t *testing.T) {
	for name, put := range map[string]bool{"killed before the put": false, "killed after the put": true} {
		t.Run(name, func(t *testing.T) {
			dir := testDir(t)
			output, hosts := testMerge(t, dir, "one", "two")
			putMerged(t, hosts[0], 1)
			putMerged(t, hosts[1], 1)
			putMerged(t, hosts[1], 2)
			output.mu.Lock()
			hosts[0].file.markNext(output.file.ch, 2, 1)
			if put {
				if _, err := output.file.w.TryPut(frame(2, 64)); err != nil {
					t.Fatal(err)
				}
			}
			output.mu.Unlock()

			_, again := testMerge(t, dir, "two")
			if _, have := again[0].Holds(); have != 2 {
				t.Errorf("host two after the restart: got newest frame %d, want 2", have)
			}
			putMerged(t, again[0], 3)
			one := again[0].Config
			one.Name, one.Host = "all/one", "one"
			late := New(one, rule.QoS{Mode: rule.Every}, nil)
			defer late.Close(func() {})
			want := uint64(1)
			if put {
				want = 2
			}
			if have := feedMerged(t, late); have != want {
				t.Errorf("host one, connected later: got newest frame %d, want %d", have, want)
			}
		})
	}
}

// A new output does not have the frames of the removed one, so the origins must send again those that they still have.
func TestMergeForgetsFramesOfRemovedOutput(t *testing.T) {
	dir := testDir(t)
	_, hosts := testMerge(t, dir, "one", "two")
	for _, m := range hosts {
		putMerged(t, m, 1)
	}
	if err := dir.Unlink("all"); err != nil {
		t.Fatal(err)
	}
	for _, m := range hosts {
		if _, _, err := m.Check(); err == nil {
			t.Errorf("%s: the removed output is not noticed", m.Name)
		}
		if have := feedMerged(t, m); have != 0 {
			t.Errorf("%s: got newest frame %d in a new file, want none", m.Name, have)
		}
		putMerged(t, m, 1)
		if _, _, err := m.Check(); err != nil {
			t.Errorf("%s: %v with the new file", m.Name, err)
		}
	}
}

// Programs must be able to read the origin of each frame, so a frame is put only after the metadata of its host's last frame.
func TestMergeWaitsForLockOfMetadataChannel(t *testing.T) {
	dir := testDir(t)
	_, hosts := testMerge(t, dir, "one")
	putMerged(t, hosts[0], 1)
	damage.TakeLock(t, dir, "all.meta")
	done := make(chan struct{})
	go func() {
		defer close(done)
		putMerged(t, hosts[0], 2)
		putMerged(t, hosts[0], 3)
	}()
	await.True(t, "frame 2", func() bool { return newestSeq(t, dir, "all") == 2 })
	time.Sleep(5 * busySeldom)
	if got := newestSeq(t, dir, "all"); got != 2 {
		t.Errorf("got frame %d while the metadata of frame 2 cannot be written", got)
	}
	damage.FreeLock(t, dir, "all.meta")
	<-done
	list := metasIn(t, dir, "all.meta")
	for seq := uint64(1); seq <= 3; seq++ {
		found := false
		for _, m := range list {
			found = found || m.Origin == "one" && m.Seq == seq && m.MirrorSeq == seq
		}
		if !found {
			t.Errorf("frame %d: no metadata among %+v", seq, list)
		}
	}
}

// A program's channel can be the output if adopt names it, and is never replaced.
func TestMergeIntoAdoptedChannel(t *testing.T) {
	dir := testDir(t)
	anothersChannel(t, dir, "all")
	cfg := bareMirror(dir, "all", func(f func()) { f() }).Config
	cfg.IsMerge = true
	c := wire.Channel{Name: "event", FrameCount: 16, FrameSize: 64, Epoch: 1}
	if err := New(cfg, rule.MergeQoS(), nil).Open(c, [16]byte{1}, "", rule.MergeQoS()); err == nil {
		t.Fatal("the channel of a program became the output, want an error that names adopt")
	}
	for run, want := range []uint64{0, 2} {
		output := New(cfg, rule.MergeQoS(), []string{"all"})
		one := cfg
		one.Name, one.Host, one.Channel, one.Into, one.IsMerge = "all/one", "one", "event", output, false
		m := New(one, rule.QoS{Mode: rule.Every}, nil)
		if have := feedMerged(t, m); have != want {
			t.Errorf("run %d: got newest frame %d, want %d", run, have, want)
		}
		putMerged(t, m, want+1)
		putMerged(t, m, want+2)
		m.mu.Lock()
		err := m.write(incoming{seq: want + 3, data: frame(1, 1<<20)})
		m.mu.Unlock()
		if !errors.Is(err, errFrameSize) {
			t.Errorf("a frame that does not fit: got %v, want %v", err, errFrameSize)
		}
		m.Close(func() {})
		output.Close(func() {})
	}
}
