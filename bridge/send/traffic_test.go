package send

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/via"
)

func TestLinkIsBestEffortDuringLoadTest(t *testing.T) {
	now := time.Second
	l := &Link{wake: make(chan struct{}, 1), subs: map[uint32]*Subscription{1: {qos: rule.QoS{Class: rule.Command}}}}
	l.cfg.Clock = testClock(0)
	l.cfg.Clock.Now = func() time.Duration { return now }
	dscp := func(when string, want via.DSCP) {
		t.Helper()
		if got := l.DSCP(); got != want {
			t.Errorf("%s: got %v, want %v", when, got, want)
		}
	}
	dscp("commands", via.CS6)
	l.Fill(time.Second)
	dscp("load test", via.CS0)
	now += 2 * time.Second
	dscp("after the load test", via.CS6)
	l.subs[2] = &Subscription{}
	dscp("another channel", via.CS0)
}
