package mirror

import (
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// arrival returns frame seq, which arrives at a time of our clock with the given age.
func arrival(seq uint64, at, age time.Duration) Arrival {
	a := came(seq, frame(seq, 64))
	a.Captured, a.At = at-age, Reading{Now: at, Known: true}
	return a
}

// Two late frames arrive in the wrong order, then one in time, then one that was overtaken.
func TestLateFrameIsPutIfItIsNewest(t *testing.T) {
	const now = time.Minute
	for _, c := range []struct {
		qos  rule.QoS
		seqs []uint64 // newest frame in the file after each arrival
		want ledger.FrameCounters
	}{
		{rule.QoS{}, []uint64{2, 2, 3, 3, 5}, ledger.FrameCounters{LateKept: 2, Superseded: 1, Delivered: 1, Duplicate: 1}},
		{rule.QoS{Late: rule.LateNewest}, []uint64{2, 2, 3, 3, 5}, ledger.FrameCounters{LateKept: 2, Superseded: 1, Delivered: 1, Duplicate: 1}},
		{rule.QoS{Late: rule.LateDrop}, []uint64{0, 0, 3, 3, 3}, ledger.FrameCounters{Late: 3, Delivered: 1, Duplicate: 1}},
		{rule.QoS{Class: rule.Command}, []uint64{0, 0, 3, 3, 3}, ledger.FrameCounters{Late: 3, Delivered: 1, Duplicate: 1}},
	} {
		dir := testDir(t)
		m := testMirror(t, dir, "m")
		m.qos = c.qos
		for i, a := range []Arrival{
			arrival(2, now, 101*milli), arrival(1, now, 120*milli), arrival(3, now, 100*milli), arrival(2, now, 130*milli), arrival(5, now, time.Second),
		} {
			m.Put(a)
			if got := newestSeq(t, dir, "m"); got != c.seqs[i] {
				t.Errorf("%+v: after arrival %d: got frame %d in the file, want %d", c.qos, i, got, c.seqs[i])
			}
		}
		if m.counters.own != c.want {
			t.Errorf("%+v: got %+v, want %+v", c.qos, m.counters.own, c.want)
		}
	}
}

// Only late frames arrive, then one in time, then late ones again.
func TestMirrorWithOnlyLateFramesIsLate(t *testing.T) {
	for _, late := range []rule.Late{rule.LateNewest, rule.LateDrop} {
		m := testMirror(t, testDir(t), "m")
		m.qos.Late, m.health.phase = late, live
		at := time.Minute
		for _, step := range []struct {
			seq  uint64
			age  time.Duration
			want bool
		}{
			{1, 120 * milli, false}, // the last frame of a channel, or the first one of a subscription
			{2, 120 * milli, true},
			{3, 90 * milli, false},
			{4, 120 * milli, false},
			{4, 130 * milli, false}, // retransmitted
			{5, 120 * milli, true},
		} {
			at += 50 * milli
			m.Put(arrival(step.seq, at, step.age))
			if s := m.Status(at+700*milli, Reading{}, ""); s.LateS > 0 {
				t.Errorf("late %v: after frame %d: it is late at once, for %v s; many frames come behind a standstill", late, step.seq, s.LateS)
			}
			s := m.Status(at+time.Second, Reading{}, "")
			if got := s.LateS > 0; got != step.want || s.State != status.MirrorLive {
				t.Errorf("late %v: after frame %d: got late for %v s, %s; want late %v, live", late, step.seq, s.LateS, s.State, step.want)
			}
			if cause := m.AddTo(m.Since().ToWire(1), at+time.Second).Cause; (cause == string(status.CauseBudget)) != step.want {
				t.Errorf("late %v: after frame %d: got cause %q at the origin", late, step.seq, cause)
			}
		}
	}
}

func TestChangedBudgetResetsLateness(t *testing.T) {
	m := testMirror(t, testDir(t), "m")
	m.health.phase = live
	m.Put(arrival(1, time.Minute, 120*milli))
	m.Put(arrival(2, time.Minute, 120*milli))
	m.Requalify(rule.QoS{Budget: time.Second})
	if s := m.Status(time.Minute, Reading{}, ""); s.LateS != 0 || s.LateKept != 2 {
		t.Errorf("got late for %v s, %d kept late; want not late any more", s.LateS, s.LateKept)
	}
}

// A frame arrives every 20 ms, 5 ms past a budget of 100 ms. Judged only by its age, the mirror would be over
// its budget a fourth of the time.
func TestMirrorWithOnlyLateFramesIsOverBudget(t *testing.T) {
	const period = 20 * milli
	for _, c := range []struct {
		qos         rule.QoS
		age         time.Duration
		least, most float64
	}{
		{rule.QoS{}, 105 * milli, 0.85, 1},
		{rule.QoS{}, 95 * milli, 0, 0},
	} {
		m := testMirror(t, testDir(t), "m")
		m.qos = c.qos
		at := time.Minute
		for seq := range uint64(300) {
			at += period
			m.Put(arrival(seq+1, at, c.age))
		}
		if over := m.Ages(at).Total.OverBudget; over < c.least || over > c.most {
			t.Errorf("%+v, %v old when they come: over the budget %v of the time, want %v to %v", c.qos, c.age, over, c.least, c.most)
		}
	}
}
