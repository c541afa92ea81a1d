package mirror

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// phaseSteps are the methods that change a mirror's phase.
var phaseSteps = map[phase]func(*Mirror){
	waiting: func(m *Mirror) { m.Unfed(status.CausePeerSilent, "no link") },
	live:    func(m *Mirror) { _, _ = m.Begin(1, 0, 0) },
	refused: func(m *Mirror) { m.Refuse(status.CauseRule, "a rule") },
	closed:  func(m *Mirror) { m.Close(func() {}) },
}

func TestMirrorTakesEachListedTransitionAndNoOther(t *testing.T) {
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

func TestClosedMirrorPutsNoFrameAndTakesNoReason(t *testing.T) {
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

func TestDeadlineTakesEachListedTransitionAndNoOther(t *testing.T) {
	m := testMirror(t, testDir(t), "m")
	m.qos = rule.QoS{Deadline: 100 * time.Millisecond}
	v, seen := &m.vigil, map[[2]timeliness]bool{}
	for i, step := range []struct {
		do   func()
		want timeliness
	}{
		{func() { m.judge(50 * time.Millisecond) }, timely},
		{v.miss, missed},
		{func() { m.tellStale(time.Second) }, stale},
		{func() { v.refresh(time.Second) }, recovering},
		{func() { m.judge(2 * time.Second) }, stale},
		{func() { v.last = 3 * time.Second; m.judge(v.last) }, recovering},
		{func() { v.last = 9 * time.Second; m.judge(v.last) }, timely},
	} {
		from := v.phase
		if step.do(); v.phase != step.want {
			t.Errorf("step %d: phase %d, want %d", i, v.phase, step.want)
		}
		seen[[2]timeliness{from, v.phase}] = true
	}
	for from := timely; from <= recovering; from++ {
		for to := timely; to <= recovering; to++ {
			if listed := timelinessTransitions.Allows(from, to); from != to && listed != seen[[2]timeliness{from, to}] {
				t.Errorf("from phase %d to %d: listed %v, seen %v", from, to, listed, !listed)
			}
		}
	}
}
