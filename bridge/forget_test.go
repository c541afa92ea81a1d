package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// A host that no rule names without a pattern is forgotten after the configured time, and gets its mirrors again when it returns.
func TestGoneHostIsForgottenAfterTime(t *testing.T) {
	for name, c := range map[string]struct {
		rule rule.Mirror
		want int // number of mirrors after that time
	}{
		"brought by a pattern": {rule.Mirror{Host: "*", Channel: "imu"}, 0},
		"named by a rule":      {rule.Mirror{Host: "robot", Channel: "*"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			forgets(t, c.rule, c.want)
		})
	}
}

func forgets(t *testing.T, r rule.Mirror, want int) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.channel("imu", 8, 64)
		robot.run(Config{})
		pc.run(Config{Mirrors: rule.Mirrors{r}, ForgetAfter: 10 * time.Minute}, robot)
		live := func() bool { return pc.mirror("robot.imu").State == status.MirrorLive }
		w.within(5*time.Second, "the mirror", live)
		robot.stop()
		time.Sleep(9 * time.Minute)
		if n := len(pc.node.StatusNow().Mirrors); n != 1 {
			t.Errorf("%+v: got %d mirrors before the time, want 1", r, n)
		}
		time.Sleep(2 * time.Minute)
		if n := len(pc.node.StatusNow().Mirrors); n != want {
			t.Errorf("%+v: got %d mirrors after the time, want %d", r, n, want)
		}
		robot.run(Config{})
		w.within(time.Minute, "the mirror of the host that came back", live)
	})
}
