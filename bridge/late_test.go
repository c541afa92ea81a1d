package bridge

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet/need"
)

// The delay grows past the budget. Then only late frames arrive, and each is the newest.
func TestLateFramesArePutAndReportedAsLate(t *testing.T) {
	qos := rule.QoS{Budget: 30 * milli, Deadline: 200 * milli}
	inFlow(t, "delay=10ms,rate=100mbit", qos, 64, func(f *flow) {
		f.stream(20*milli, second, func(time.Duration) {})
		f.change("delay=60ms")
		before := f.kept()
		states := map[status.MirrorState]int{}
		f.stream(20*milli, 3*second, func(at time.Duration) {
			if at > second {
				states[f.pc.mirror(flowName).State]++
			}
		})
		m, e := f.pc.mirror(flowName), f.robot.node.Status().Exports[0]
		if got := f.kept() - before; got < 140 {
			t.Errorf("%d of 150 late frames were put, want all but a few that are on their way", got)
		}
		if states[status.MirrorLive] > 0 || m.State != status.MirrorStale || m.StaleS < 2 || !strings.Contains(m.Reason, "no frame in time for") {
			t.Errorf("got %s for %v s (%s), seen as %v; want it stale all the while", m.State, m.StaleS, m.Reason, states)
		}
		if m.LateS < 2 || e.ReaderCause != status.CauseBudget {
			t.Errorf("got late for %v s, and cause %q at the robot; want both set", m.LateS, e.ReaderCause)
		}
		if over := m.Age.Window.OverBudget * m.Age.Window.WindowS; over < 2.5 {
			t.Errorf("got %v s over the budget, want the 3 s of late frames", over)
		}

		f.change("delay=10ms")
		f.stream(20*milli, second, func(time.Duration) {})
		time.Sleep(second)
		f.agrees()
		f.requalify(rule.QoS{Budget: 30 * milli}) // the mirror becomes stale again without frames
		m, e = f.pc.mirror(flowName), f.robot.node.Status().Exports[0]
		if m.State != status.MirrorLive || m.LateS != 0 || e.ReaderCause != "" {
			t.Errorf("in time again: got %s, late for %v s, cause %q at the robot; want live, in time, no cause", m.State, m.LateS, e.ReaderCause)
		}
	})
}

// Over these links many frames arrive past the budget.
func TestLateFramesKeepMirrorAsFreshAsLargeBudget(t *testing.T) {
	for _, link := range []struct {
		text  string
		seeds uint64
		long  bool
	}{
		{text: "rate=150kbit,delay=30ms,queue=64KiB", seeds: 3},
		{"rate=500kbit,delay=60ms,queue=64KiB,stall=100ms/200ms", 20, true},
	} {
		t.Run(link.text, func(t *testing.T) {
			if link.long && !need.IsLong() {
				t.Skip("long: set ACHBRIDGE_LONG=1")
			}
			t.Parallel()
			// Medians: one run in forty measures half of the path's rate.
			measure := func(qos rule.QoS) (mean, p95 float64, kept uint64) {
				var means, p95s []float64
				for seed := uint64(1); seed <= link.seeds; seed++ {
					s := scenario{over: "quic", link: link.text, loads: []load{{channel: "state", size: 1000, period: milli, qos: qos}}, zero: radioZero}
					readers, b := s.run(t, seed)
					a := ageStat(cut(readers[0].ages, window{"", warmUp, warmUp + s.span()}, s.step()))
					means, p95s, kept = append(means, a.mean), append(p95s, a.p95), kept+b.lateKept["robot.state"]
				}
				return median(means), median(p95s), kept
			}
			usual, usualP95, kept := measure(rule.QoS{})
			patient, patientP95, _ := measure(rule.QoS{Budget: patience})
			strict, strictP95, strictKept := measure(rule.QoS{Late: rule.LateDrop})
			t.Logf("mean and p95 of the age: %.0f and %.0f ms, of a budget of %v %.0f and %.0f, of late drop %.0f and %.0f", usual, usualP95, patience, patient, patientP95, strict, strictP95)
			if usual > 1.08*patient || usualP95 > 1.12*patientP95 || kept < 30*link.seeds {
				t.Errorf("the age is %.0f ms on average, p95 %.0f, with %d late frames kept; want about the %.0f and %.0f of a large budget", usual, usualP95, kept, patient, patientP95)
			}
			if strictP95 < 1.3*usualP95 || strictKept > 3*link.seeds {
				t.Errorf("with late drop: got p95 %.0f ms and %d late frames, want it older, and late frames only for last-value delivery", strictP95, strictKept)
			}
		})
	}
}
