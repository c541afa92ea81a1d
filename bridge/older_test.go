package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
)

// One frame occupies the link for 4 ms, and its acknowledgement takes 80 ms. If each frame waited
// for the acknowledgement of the previous one, no more than 71 would arrive in 6 s.
func TestNextLargeFrameDoesNotWaitForFeedback(t *testing.T) {
	measured(t)
	inFlow(t, "delay=40ms,rate=100mbit,queue=1MiB", rule.QoS{Budget: 400 * milli}, 50_000, func(f *flow) {
		f.stream(10*milli, 6*second, func(time.Duration) {})
		time.Sleep(2 * second)
		if got := f.pcSays(); got.Delivered < 140 {
			t.Errorf("%d frames arrived, want 140 at least", got.Delivered)
		}
		f.agrees()
	})
}

// Either of two frames in transit may lack a fragment, which is retransmitted.
func TestTwoLargeFramesInFlightAreRepaired(t *testing.T) {
	inFlow(t, "delay=10ms,rate=20mbit,queue=1MiB,loss=0.1%", rule.QoS{Budget: 400 * milli}, 50_000, func(f *flow) {
		f.stream(10*milli, 6*second, func(time.Duration) {})
		time.Sleep(2 * second)
		if got := f.pcSays(); got.Repaired < 1 || got.Delivered < 100 {
			t.Errorf("%d frames arrived, %d of them repaired; want 100 at least, and 1", got.Delivered, got.Repaired)
		}
		f.agrees()
	})
}
