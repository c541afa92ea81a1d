package mirror

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/rule"
	"achbridge/localach/damage"
)

// A process holds the mirror's lock for a moment while the mirror closes.
func TestCommandMirrorClosesWhileLockIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := testDir(t)
		m := testMirror(t, dir, "goal")
		m.qos = rule.QoS{Class: rule.Command, Budget: time.Second, OnStale: rule.OnStale{File: "safe", Frame: "safe"}}
		m.Put(Arrival{Epoch: 1, Seq: 1, Captured: 1, At: Reading{Now: 1, Known: true}, Data: []byte("go")})
		damage.TakeLock(t, dir, "goal")
		began, closed := time.Now(), make(chan struct{})
		if m.Close(func() { close(closed) }) {
			t.Error("the mirror is closed without its safe frame, want the frame put first")
		}
		m.Put(Arrival{Epoch: 1, Seq: 2, Captured: 2, At: Reading{Now: 2, Known: true}, Data: []byte("go on")})
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v, want no waiting for the lock", took)
		}
		damage.FreeLock(t, dir, "goal")
		<-closed
		ch, err := dir.Open("goal")
		if err != nil {
			t.Fatal(err)
		}
		defer ch.Close()
		frame := make([]byte, 64)
		if n, err := ch.Reader().Last(frame); err != nil || string(frame[:n]) != "safe" || ch.LastSeq() != 2 {
			t.Errorf("got frame %d, %q, %v, want the safe one behind the first", ch.LastSeq(), frame[:n], err)
		}
	})
}

// The origin may be an older or a hostile one: its flags cannot make a late command be put.
func TestLateCommandIsNotPutDespiteOriginFlags(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "goal")
	m.qos = rule.QoS{Class: rule.Command, Budget: 50 * time.Millisecond}
	now := Reading{Now: 10 * time.Second, Uncertainty: 20 * time.Millisecond, Known: true}
	for what, a := range map[string]Arrival{
		"owed":                 {Seq: 1, LastValue: true, Captured: 5 * time.Second, At: now},
		"of unknown age":       {Seq: 2, LastValue: true, At: now},
		"perhaps too old":      {Seq: 3, Captured: now.Now - 40*time.Millisecond, At: now},
		"by a clock not known": {Seq: 4, Captured: now.Now, At: Reading{Now: now.Now}},
	} {
		a.Epoch, a.Data = m.file.tag.Epoch, frame(a.Seq, 64)
		m.Put(a)
		if got := newestSeq(t, dir, "goal"); got != 0 {
			t.Errorf("a command that is %s was put", what)
		}
	}
	m.Put(Arrival{Epoch: m.file.tag.Epoch, Seq: 9, Captured: now.Now - 20*time.Millisecond, At: now, Data: frame(9, 64)})
	if got := newestSeq(t, dir, "goal"); got != 9 {
		t.Errorf("a command in time: got frame %d, want 9", got)
	}
}

// The lock of the robot's channel is taken when a command arrives.
func TestWaitingCommandIsNotPutAfterSuspend(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "goal")
	var slept atomic.Int64
	m.Clock.Suspended, m.Clock.Woke = func() time.Duration { return time.Duration(slept.Load()) }, func() {}
	m.qos = rule.QoS{Class: rule.Command, Budget: time.Minute}
	damage.TakeLock(t, dir, "goal")
	m.Put(Arrival{Epoch: 1, Seq: 1, Captured: 1, At: Reading{Now: 1, Known: true}, Data: []byte("go")})
	slept.Store(int64(time.Hour))
	damage.FreeLock(t, dir, "goal")
	eventually(t, "what becomes of the command", time.Second, func() bool { return m.Status(0, Reading{}, "").FrameCounters.Late == 1 })
	if n := lastPut(t, dir, "goal"); n != 0 {
		t.Errorf("%d frames were put, want none", n)
	}
}
