package mirror

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet/walk"
)

// phaseSteps are the methods that change a mirror's phase.
var phaseSteps = map[phase]func(*Mirror){
	waiting: func(m *Mirror) { m.Unfed(status.CausePeerSilent, "no link") },
	live:    func(m *Mirror) { _, _ = m.Begin(1, 0, 0) },
	refused: func(m *Mirror) { m.Refuse(status.CauseRule, "a rule") },
	closed:  func(m *Mirror) { m.Close(func() {}) },
}

func TestMirrorTransitions(t *testing.T) {
	for from, reach := range phaseSteps {
		for to, step := range phaseSteps {
			m := testMirror(t, testDir(t), "m")
			reach(m)
			step(m)
			want := from
			if from != closed {
				want = to // only Close is final
			}
			if m.health.phase != want || transitions.Allows(from, to) != (want == to) {
				t.Errorf("phase %d after %d, step %d: want %d; listed: %v", m.health.phase, from, to, want, transitions.Allows(from, to))
			}
		}
	}
}

func TestClosedMirrorIgnoresFramesAndRefusals(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	phaseSteps[closed](m)
	m.Put(came(1, frame(1, 64)))
	if got := newestSeq(t, dir, "m"); got != 0 || m.counters.own.Refused != 1 {
		t.Errorf("frame %d is in the file, %d refused; want none put and one refused", got, m.counters.own.Refused)
	}
	if m.Refuse(status.CauseRule, "a rule") || m.health.reason != "" {
		t.Errorf("a closed mirror is refused for %q", m.health.reason)
	}
}

func TestDeadlineTransitions(t *testing.T) {
	m := testMirror(t, testDir(t), "m")
	m.qos = rule.QoS{Deadline: 100 * time.Millisecond}
	v := &m.deadlineMonitor
	walk.Phases(t, timelinessTransitions, func() timeliness { return v.phase }, []walk.Step[timeliness]{
		{Do: func() { m.judge(50 * time.Millisecond) }, Want: timely},
		{Do: v.miss, Want: missed},
		{Do: func() { m.reportStale(time.Second) }, Want: stale},
		{Do: func() { v.refresh(time.Second) }, Want: recovering},
		{Do: func() { m.judge(2 * time.Second) }, Want: stale},
		{Do: func() { v.last = 3 * time.Second; m.judge(v.last) }, Want: recovering},
		{Do: func() { v.last = 9 * time.Second; m.judge(v.last) }, Want: timely},
	})
}
