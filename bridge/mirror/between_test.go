package mirror

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/localach/damage"
)

// A large frame takes milliseconds to decompress. Meanwhile the origin's channel is created again, and the new
// epoch is subscribed to.
func TestFrameOfFormerEpochIsNotPutInNewEpoch(t *testing.T) {
	for _, earlier := range []uint64{1, 1000} {
		dir := testDir(t)
		m := testMirror(t, dir, "m")
		was, is := &Feed{Epoch: 1}, &Feed{Epoch: 2}
		m.feedFrom(was)
		m.expect(2, rule.QoS{})
		m.feedFrom(is)
		m.Put(Arrival{From: was, Epoch: 1, Seq: earlier, Data: frame(earlier, 64)})
		m.Put(Arrival{From: is, Epoch: 2, Seq: 1, Data: frame(1, 64)})
		if got := newestSeq(t, dir, "m"); got != 1 {
			t.Errorf("after frame %d of the former epoch: got frame %d in the mirror, want frame 1 of the new epoch", earlier, got)
		}
	}
}

// A record of mode every is decompressed while the mirror becomes a command mirror of the same epoch. The record
// may be as old as the ring is long.
func TestFrameOfEndedStreamIsNotPut(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	was, is := &Feed{Epoch: 1}, &Feed{Epoch: 1}
	m.expect(1, rule.QoS{Mode: rule.Every})
	m.feedFrom(was)
	m.expect(1, rule.QoS{Class: rule.Command})
	m.feedFrom(is)
	if busy := m.putNext(Arrival{From: was, Epoch: 1, Seq: 5, Data: frame(5, 64)}); busy {
		t.Error("the stream has ended, and waits for the mirror's lock")
	}
	if got := newestSeq(t, dir, "m"); got != 0 {
		t.Errorf("got frame %d of the stream that has ended among the commands", got)
	}
}

// A command past its budget is not put, whether it arrives as a datagram or over a stream.
func TestLateCommandOverStreamIsNotPut(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.expect(1, rule.QoS{Class: rule.Command, Budget: 50 * time.Millisecond})
	in := &Feed{Epoch: 1}
	m.feedFrom(in)
	at := Reading{Now: 10 * time.Second, Known: true}
	m.putNext(Arrival{From: in, Epoch: 1, Seq: 5, Captured: 9 * time.Second, At: at, Data: frame(5, 64)})
	if got := newestSeq(t, dir, "m"); got != 0 || m.counters.own.Late != 1 {
		t.Errorf("got frame %d, 1 s old, and %d late; want none put and it late", got, m.counters.own.Late)
	}
	m.putNext(Arrival{From: in, Epoch: 1, Seq: 6, Captured: 10 * time.Second, At: at, Data: frame(6, 64)})
	if got := newestSeq(t, dir, "m"); got != 6 {
		t.Errorf("got frame %d, want 6, which is in time", got)
	}
}

// Frames arrive over a stream in order and only once, unless the origin is faulty.
func TestModeEveryMirrorPutsOnlyNewerFrames(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.expect(1, rule.QoS{Mode: rule.Every})
	in := &Feed{Epoch: 1}
	m.feedFrom(in)
	for _, seq := range []uint64{1, 2, 5, 3, 5, 4, 6} {
		m.putNext(Arrival{From: in, Epoch: 1, Seq: seq, Data: frame(seq, 64)})
	}
	ch, err := dir.Open("m")
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	var got []uint64
	b := make([]byte, 64*16)
	for r := ch.Reader(); ; {
		if _, err := r.NextOldest(b, 0); err != nil {
			break
		}
		got = append(got, binary.LittleEndian.Uint64(b))
	}
	if want := []uint64{1, 2, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("got frames %v, want %v", got, want)
	}
	if m.counters.own.Duplicate != 3 {
		t.Errorf("got %d duplicates, want 3", m.counters.own.Duplicate)
	}
}

// A new subscription has no record of earlier frames. The number in the mirror's tag shows which frame its file
// holds.
func TestFrameInFileIsNotPutAgain(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.Put(came(7, frame(7, 64)))
	if have, _ := m.expect(1, rule.QoS{}); have != 7 {
		t.Fatalf("expect = frame %d, want 7", have)
	}
	m.Put(came(7, frame(7, 64)))
	if got := lastPut(t, dir, "m"); got != 1 {
		t.Errorf("%d frames were put, want frame 7 once", got)
	}
	if m.counters.own.Superseded != 1 || m.counters.own.Delivered != 1 {
		t.Errorf("got %+v, want one frame delivered and one superseded", m.counters.own)
	}
}

// An older frame arrives late, while a newer one waits for the mirror's lock.
func TestOlderFrameDoesNotReplaceWaitingFrame(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.Put(came(1, frame(1, 64)))
	damage.TakeLock(t, dir, "m")
	m.Put(came(3, frame(3, 64)))
	m.Put(came(2, frame(2, 64)))
	damage.FreeLock(t, dir, "m")
	eventually(t, "a frame after the lock was free", 10*time.Second, func() bool { return newestSeq(t, dir, "m") != 1 })
	if got := newestSeq(t, dir, "m"); got != 3 {
		t.Errorf("got frame %d, want 3, which arrived before it", got)
	}
}

// The frame arrives before the peer's clock is known. The clock that becomes known is that of another
// incarnation of the peer's daemon.
func TestAgeIgnoresClockOfOtherIncarnation(t *testing.T) {
	for what, c := range map[string]struct {
		run      uint64
		reported bool
	}{"the same daemon": {1, true}, "another one": {2, false}} {
		m := testMirror(t, testDir(t), "m")
		m.changeClock(1)
		m.Put(Arrival{Epoch: 1, Seq: 1, Captured: 5 * time.Second, At: Reading{Now: 6 * time.Second}, Data: frame(1, 64)})
		m.changeClock(c.run)
		m.mu.Lock()
		m.learn(Reading{Now: 7 * time.Second, Known: true})
		m.mu.Unlock()
		if got := m.Status(7*time.Second, Reading{}, "").AgeMs; (got != nil) != c.reported {
			t.Errorf("%s: got age %v, want one %v", what, got, c.reported)
		}
	}
}

// The file was replaced, so that the mirror subscribed without a frame. Yet it knows a frame of this epoch newer
// than the newest one that the origin reports.
func TestMirrorWithNewFileDetectsOriginReset(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.Put(came(5, frame(5, 64)))
	damage.MakeDirty(t, dir, "m")
	if _, _, err := m.Check(); err != nil || m.file.replaced != 1 {
		t.Fatalf("got %v, %d times replaced, want a new file", err, m.file.replaced)
	}
	have, _ := m.expect(1, rule.QoS{})
	if ok, err := m.Begin(1, 3, have); ok || err != nil {
		t.Fatalf("got %v, %v, want a reset of the origin, which is at frame 3", ok, err)
	}
	m.expect(1, rule.QoS{})
	m.Put(came(1, frame(1, 64)))
	if got := newestSeq(t, dir, "m"); got != 1 {
		t.Errorf("got frame %d after the reset, want 1", got)
	}
}

// A writer is not replaced before its safe frame was put. Otherwise the safe frame would appear among the
// commands of the next writer.
func TestWriterIsKeptUntilSafeFrameIsPut(t *testing.T) {
	m := testMirror(t, testDir(t), "goal")
	m.qos = rule.QoS{Class: rule.Command, Deadline: time.Second, OnStale: rule.OnStale{File: "stop", Frame: "stop"}}
	for _, c := range []struct {
		phase       timeliness
		armed, lost bool
	}{{stale, true, false}, {stale, false, true}, {timely, false, false}} {
		m.deadlineMonitor.phase, m.deadlineMonitor.armed = c.phase, c.armed
		if got := m.Lost(); got != c.lost {
			t.Errorf("phase %v, safe frame pending %v: got lost %v, want %v", c.phase, c.armed, got, c.lost)
		}
	}
}

// The file was replaced in mode newest, and then the mode became every: the new file lacks the newest frame, but
// no older one.
func TestStreamIntoNewFileStartsWithMissingFrame(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.Put(came(5, frame(5, 64)))
	damage.MakeDirty(t, dir, "m")
	if _, _, err := m.Check(); err != nil || m.file.replaced != 1 {
		t.Fatalf("got %v, %d times replaced, want a new file", err, m.file.replaced)
	}
	m.expect(1, rule.QoS{Mode: rule.Every})
	for seq := range uint64(5) {
		m.putNext(came(seq, frame(seq, 64)))
		if got := newestSeq(t, dir, "m"); got != 0 {
			t.Errorf("after frame %d: got %d in the mirror, want none", seq, got)
		}
	}
	m.putNext(came(5, frame(5, 64)))
	if got := newestSeq(t, dir, "m"); got != 5 {
		t.Errorf("got frame %d in the mirror, want 5", got)
	}
}

// An old command must not be requested again.
func TestLateCommandIsNotRequestedAgain(t *testing.T) {
	for _, class := range []rule.Class{rule.State, rule.Command} {
		m := testMirror(t, testDir(t), "m")
		m.qos = rule.QoS{Class: class, Budget: 50 * time.Millisecond, Late: rule.LateDrop}
		m.Put(Arrival{Epoch: 1, Seq: 1, Captured: 5 * time.Second, At: Reading{Now: 6 * time.Second, Known: true}, Data: frame(1, 64)})
		if _, mustRetransmit, err := m.Check(); err != nil || mustRetransmit != (class == rule.State) {
			t.Errorf("class %v: got missing frame %v, %v; want it only for a state channel", class, mustRetransmit, err)
		}
	}
}
