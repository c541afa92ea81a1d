package bridge

import (
	"math"
	"testing"
	"time"

	"achbridge/bridge/status"
)

// Capture times are relative to the start of the robot's daemon. Those of a former incarnation
// mean nothing in the next, but the frame continues to age.
func TestAgeContinuesAfterOriginRestart(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		imu, other := robot.channel("imu", 16, 64), robot.channel("other", 16, 64)
		time.Sleep(5 * time.Second)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, time.Second)
		robot.stop()
		robot.run(robot.cfg)
		w.within(10*time.Second, "link", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
		for i := range uint64(100) { // synchronizes the link's clock
			other.put(i+1, 64)
			time.Sleep(10 * time.Millisecond)
		}
		_, age := pc.newest("robot.imu")
		if m := pc.mirror("robot.imu"); m.AgeMs == nil || math.Abs(*m.AgeMs-status.Ms(age)) > 1+m.Age.UncertaintyMs {
			t.Errorf("got an age of %v, a reader %v", m.AgeMs, age)
		}
		if m := pc.mirror("robot.other"); m.AgeMs == nil {
			t.Error("got no age for a frame of this life")
		}
	})
}
