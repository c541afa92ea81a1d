package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// A node's clock counts from the node's start. Here the clocks differ by a minute, as if one had
// been set wrong.
func TestAgeIsIndependentOfClockOffset(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		imu := robot.channel("imu", 16, 64)
		robot.run(Config{})
		time.Sleep(time.Minute)
		pc := w.host("pc", wire10ms).run(Config{Mirrors: []rule.Mirror{
			{Host: "robot", Channel: "imu", QoS: rule.QoS{Budget: 25 * time.Millisecond, Class: rule.Command}}, // 10 ms of delay, 10 ms of uncertainty
		}}, robot)
		w.within(2*time.Second, "live", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
		for i := range 500 {
			imu.put(uint64(i+1), 64)
			time.Sleep(10 * time.Millisecond)
		}
		l := pc.node.Status().Links[0]
		if off := l.ClockOffsetMs - 60e3; off < -l.ClockUncertaintyMs || off > l.ClockUncertaintyMs || l.ClockUncertaintyMs > 20 {
			t.Errorf("clock offset: got %.3f ± %.3f ms, want 60000", l.ClockOffsetMs, l.ClockUncertaintyMs)
		}
		m := pc.mirror("robot.imu")
		if m.AgeMs == nil || *m.AgeMs < 9 || *m.AgeMs > 21 {
			t.Errorf("age: got %v ms, want 10 to 20", m.AgeMs)
		}
	})
}
