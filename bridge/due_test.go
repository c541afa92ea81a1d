package bridge

import (
	"math"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// putEvery puts frames for a time, with consecutive numbers after *number.
func putEvery(c *channel, number *uint64, period, during time.Duration) {
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(period) {
		*number++
		c.put(*number, 64)
	}
}

func TestSlowPunctualChannelIsWithinBudget(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		imu, n := robot.channel("imu", 16, 64), uint64(0)
		time.Sleep(5 * time.Second)
		putEvery(imu, &n, 200*time.Millisecond, 20*time.Second) // the budget is 100 ms
		m, e := pc.mirror("robot.imu"), robot.node.Status().Exports[0]
		if m.PeriodMs == nil || math.Abs(*m.PeriodMs-200) > 3 || e.PeriodMs == nil || math.Abs(*e.PeriodMs-200) > 3 {
			t.Errorf("period of 5 Hz: got %v, at the origin %v, want 200 ms", value(m.PeriodMs), value(e.PeriodMs))
		}
		if m.Age.Total.OverBudget > 0 || *m.DueMs > 20 || *e.DueMs > 5 {
			t.Errorf("5 Hz in order: got %v of the time over budget, due %v and %v", m.Age.Total.OverBudget, *m.DueMs, *e.DueMs)
		}
		if err := w.net.Change("", "cut"); err != nil {
			t.Fatal(err)
		}
		putEvery(imu, &n, 200*time.Millisecond, 20*time.Second)
		m = pc.mirror("robot.imu")
		if m.Age.Window.OverBudget != 1 || math.Abs(*m.DueMs-(*m.AgeMs-*m.PeriodMs)) > 1e-3 || *m.DueMs < 19e3 {
			t.Errorf("cut off for 20 s: got %v of the window over budget, due %v of %v", m.Age.Window.OverBudget, *m.DueMs, *m.AgeMs)
		}
	})
}

func value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func TestSingleFrameIsNeverDue(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		imu := robot.channel("imu", 16, 64)
		time.Sleep(5 * time.Second)
		imu.put(1, 64)
		time.Sleep(20 * time.Second)
		if m := pc.mirror("robot.imu"); m.AgeMs == nil || m.DueMs != nil || m.PeriodMs != nil || m.Age.Total.OverBudget != 0 {
			t.Errorf("got %+v, want an age and no word on the next frame", m)
		}
	})
}

// TestFramesExcludedByRuleAreNotDue checks that frames which the origin's rule excludes do not count
// as due. Only the origin knows the rule.
func TestFramesExcludedByRuleAreNotDue(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		imu, n := robot.channel("imu", 64, 64), uint64(0)
		robot.run(Config{Export: rule.Grants{{Channels: []string{"*"}, QoS: rule.QoS{MaxRate: 2000}}}})
		pc := w.host("pc", wire10ms).run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu"}}}, robot)
		w.within(2*time.Second, "live", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
		putEvery(imu, &n, 10*time.Millisecond, 30*time.Second)
		m, e := pc.mirror("robot.imu"), robot.node.Status().Exports[0]
		if math.Abs(value(m.PeriodMs)-500) > 50 || math.Abs(value(e.PeriodMs)-500) > 5 {
			t.Errorf("100 Hz with a rule of 2 Hz: got a period of %v, at the origin %v, want 500 ms", value(m.PeriodMs), value(e.PeriodMs))
		}
		if m.Age.Window.OverBudget > 0 {
			t.Errorf("got %v of the window over budget", m.Age.Window.OverBudget)
		}
	})
}
