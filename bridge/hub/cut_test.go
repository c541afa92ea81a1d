package hub

import (
	"testing"
	"time"
)

// TestFramesAreFreshSoonAfterCuts cuts a robot off and drops its packets. After the cut, newer
// frames must arrive within a second, after at most two older ones.
func TestFramesAreFreshSoonAfterCuts(t *testing.T) {
	s := startStage(t)
	s.change("robot", "delay=10ms,rate=10mbit,queue=64KiB")
	s.change("hub>robot", "delay=10ms")
	robot, pc := s.act("robot", "put:imu:200:100"), s.act("pc", "next:imu")
	time.Sleep(settle)
	cuts := []time.Duration{1e9, 2e9, 3e9, 4e9, 5e9, 8e9}
	type gap struct{ from, to time.Duration }
	var gaps []gap
	for _, cut := range cuts {
		s.change("robot", "cut")
		g := gap{from: clock()}
		time.Sleep(cut)
		s.change("robot", "up")
		g.to = clock()
		gaps = append(gaps, g)
		time.Sleep(2 * time.Second)
	}
	var puts putLog
	var came []arrival
	robot.end(&puts)
	pc.end(&came)
	for i, g := range gaps {
		fresh, old := time.Duration(0), 0
		for _, a := range came {
			switch {
			case a.Came > g.to && a.Captured > g.to && fresh == 0:
				fresh = a.Came - g.to
			case a.Came > g.to && a.Captured < g.to:
				old++
			}
		}
		t.Logf("cut of %v: fresh after %v, %d older frames before", cuts[i], fresh.Round(time.Millisecond), old)
		if fresh == 0 || fresh > 2*time.Second {
			t.Errorf("cut of %v: fresh after %v, want within 1 s (2 s where the machine is busy)", cuts[i], fresh)
		}
		if old > 2*maxUnacked {
			t.Errorf("cut of %v: got %d frames put before the end of the cut, want at most %d", cuts[i], old, 2*maxUnacked)
		}
	}
}
