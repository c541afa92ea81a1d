package bridge

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

func TestStaleStateMirrorGetsNoSafeFrame(t *testing.T) {
	inFlow(t, "delay=5ms", rule.QoS{Deadline: 100 * milli}, 64, func(f *flow) {
		f.put()
		f.holds(1, time.Second)
		time.Sleep(time.Second)
		m := f.pc.mirror(flowName)
		if m.State != status.MirrorStale || m.StaleS < 0.89 || m.StaleS > 0.91 || !strings.Contains(m.Reason, "no frame for 1 s, its deadline is 100 ms") {
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
