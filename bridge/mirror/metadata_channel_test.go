package mirror

import (
	"errors"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/localach/damage"
	"achbridge/wire"
)

// metasIn returns the frames of the metadata channel of a mirror or of a merge, the oldest first.
func metasIn(t *testing.T, dir localach.Dir, name string) (list []status.Meta) {
	t.Helper()
	ch, err := dir.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	r, b := ch.Reader(), make([]byte, status.MergeMetaSize)
	for {
		n, err := r.TryNextOldest(b)
		if err != nil {
			return list
		}
		m, err := status.ParseMeta(b[:n])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
}

func TestLockedMetadataChannelDelaysNoPut(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	if err := m.accompany(rule.QoS{Meta: true}); err != nil {
		t.Fatal(err)
	}
	damage.TakeLock(t, dir, "m.meta")
	begin := time.Now()
	for seq := range uint64(1000) {
		m.Put(came(seq+1, frame(seq+1, 64)))
	}
	if took := time.Since(begin); took > 200*time.Millisecond {
		t.Errorf("1000 puts took %v, want no waiting for the lock", took)
	}
	if got := newestSeq(t, dir, "m"); got != 1000 {
		t.Errorf("the mirror is at %d, want 1000", got)
	}
	damage.FreeLock(t, dir, "m.meta")
	eventually(t, "the newest is told when the lock is free", time.Second, func() bool {
		m.Tend(Reading{})
		return m.file.meta.lastWritten.Seq == 1000
	})
}

func TestDamagedMetadataChannelIsRecreated(t *testing.T) {
	for what, harm := range map[string]func(t *testing.T, dir localach.Dir){
		"dirty":   func(t *testing.T, dir localach.Dir) { damage.MakeDirty(t, dir, "m.meta") },
		"removed": func(t *testing.T, dir localach.Dir) { _ = dir.Unlink("m.meta") },
	} {
		t.Run(what, func(t *testing.T) {
			dir := testDir(t)
			m := testMirror(t, dir, "m")
			if err := m.accompany(rule.QoS{Meta: true}); err != nil {
				t.Fatal(err)
			}
			m.Put(came(1, frame(1, 64)))
			harm(t, dir)
			m.Put(came(2, frame(2, 64)))
			m.Tend(Reading{})
			if list := metasIn(t, dir, "m.meta"); len(list) == 0 || list[len(list)-1].Seq != 2 {
				t.Errorf("got %+v, want frame 2", list)
			}
		})
	}
}

// A mirror marks the damaged file CORRUPT in another goroutine, since that takes long.
func TestOpenDoesNotWaitForDamagedMetadataChannel(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	if err := m.accompany(rule.QoS{Meta: true}); err != nil {
		t.Fatal(err)
	}
	old, err := dir.Open("m.meta")
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	m.abandon()
	m.closeMeta()
	damage.MakeDirty(t, dir, "m.meta")

	var later []func()
	again := bareMirror(dir, "m", func(work func()) { later = append(later, work) })
	if err := again.Open(wire.Channel{Name: "m", FrameCount: 16, FrameSize: 64, Epoch: 1}, [16]byte{1}, "", rule.QoS{Meta: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Reader().TryNext(make([]byte, status.MetaSize)); !errors.Is(err, localach.ErrDirty) {
		t.Errorf("when the mirror is open: got %v of the old companion, want it untouched: %v", err, localach.ErrDirty)
	}
	for _, work := range later {
		work()
	}
	if _, err := old.Reader().TryNext(make([]byte, status.MetaSize)); !errors.Is(err, localach.ErrCorrupt) {
		t.Errorf("afterwards: got %v of the old companion, want %v", err, localach.ErrCorrupt)
	}
	again.Close(func() {})
}

// BenchmarkPut measures a put into a mirror with and without a metadata channel.
func BenchmarkPut(b *testing.B) {
	for name, meta := range map[string]bool{"alone": false, "with meta": true} {
		b.Run(name, func(b *testing.B) {
			m := testMirror(b, testDir(b), "m")
			if err := m.accompany(rule.QoS{Meta: meta}); err != nil {
				b.Fatal(err)
			}
			f := frame(1, 64)
			b.ReportAllocs()
			seq := uint64(0)
			for b.Loop() {
				seq++
				m.Put(Arrival{Epoch: 1, Seq: seq, Data: f, Captured: 1, At: Reading{Known: true}})
			}
		})
	}
}
