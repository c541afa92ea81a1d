package bridge

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

func TestStateMirrorIsStaleWithoutFramesAndGetsNone(t *testing.T) {
	inFlow(t, "delay=5ms", rule.QoS{Deadline: 100 * milli}, 64, func(f *flow) {
		f.put()
		f.holds(1, time.Second)
		time.Sleep(time.Second)
		m := f.pc.mirror(flowName)
		if m.State != status.MirrorStale || m.StaleS < 0.89 || m.StaleS > 0.91 || !strings.Contains(m.Reason, "no frame for 1s, its deadline is 100ms") {
			t.Errorf("got %s for %v s (%s), want it stale for 0.9 s", m.State, m.StaleS, m.Reason)
		}
		if n := f.kept(); n != 1 {
			t.Errorf("%d frames are in the mirror, want one", n)
		}
		f.put()
		f.holds(2, time.Second)
		if m := f.pc.mirror(flowName); m.State != status.MirrorLive || m.StaleS != 0 {
			t.Errorf("got %s, stale for %v s, want it live", m.State, m.StaleS)
		}
		f.requalify(rule.QoS{})
		time.Sleep(time.Second)
		if m := f.pc.mirror(flowName); m.State != status.MirrorLive {
			t.Errorf("without a deadline: got %s", m.State)
		}
	})
}

// A process sits on the mirror's lock for a moment, when the mirror ends.
func TestEndOfACommandMirrorWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := testDir(t)
		m := testMirror(t, dir, "goal")
		m.qos = rule.QoS{Class: rule.Command, Budget: time.Second, OnStale: rule.OnStale{File: "safe", Frame: "safe"}}
		m.put(arrival{epoch: 1, seq: 1, captured: 1, at: reading{now: 1, known: true}, data: []byte("go")})
		takeLock(t, dir, "goal")
		began, closed := time.Now(), make(chan struct{})
		if m.close(func() { close(closed) }) {
			t.Error("it says that it is closed, and its safe frame was not put")
		}
		m.put(arrival{epoch: 1, seq: 2, captured: 2, at: reading{now: 2, known: true}, data: []byte("go on")})
		if took := time.Since(began); took != 0 {
			t.Errorf("somebody waited %v for the lock", took)
		}
		freeLock(t, dir, "goal")
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
