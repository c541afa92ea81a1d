package hubway

import (
	"testing"
	"time"

	"achbridge/wire"
)

// One second with few frames does not lower the bound of the following seconds.
func TestRateBoundOutlastsOneSlowSecond(t *testing.T) {
	b := newBound(0)
	second, received := time.Duration(0), uint64(0)
	hear := func(got uint64, waiting bool) {
		second += time.Second
		received += got
		b.add(wire.Pulled{Received: received, Waiting: waiting}, second)
	}
	for range 5 {
		hear(200, true)
	}
	hear(8, false)
	if b.perSec < 200 {
		t.Errorf("after one second of 8 frames: got a bound of %.0f a second, want it not below 200", b.perSec)
	}
	for range boundReports {
		hear(8, false)
	}
	if b.perSec != 8*boundFactor {
		t.Errorf("after some seconds of 8 frames: got a bound of %.1f a second, want 10", b.perSec)
	}
}

func TestBackwardReportSetsNoRate(t *testing.T) {
	b := newBound(0)
	b.add(wire.Pulled{Received: 100}, 2*time.Second)
	b.add(wire.Pulled{Received: 60}, 3*time.Second)
	if most := boundFactor * 50; b.perSec > most {
		t.Errorf("got %v frames a second, want at most %v, by the first report", b.perSec, most)
	}
}
