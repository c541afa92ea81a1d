package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// This includes a channel of the PC itself, whose file has no tag with the origin.
func TestAdoptedMirrorGetsNoFrameTwiceAfterRestart(t *testing.T) {
	for what, c := range map[string]struct {
		adopt []string
		mode  rule.Mode
	}{
		"ours": {nil, rule.Newest}, "adopted": {[]string{"robot.data"}, rule.Newest}, "adopted, every": {[]string{"robot.data"}, rule.Every},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				data := robot.channel("data", 64, 64)
				robot.run(Config{})
				if c.adopt != nil {
					pc.channel("robot.data", 64, 64)
				}
				pc.run(Config{Adopt: c.adopt, Mirrors: []rule.Mirror{{Host: "robot", Channel: "data", QoS: rule.QoS{Mode: c.mode}}}}, robot)
				numbers := pc.follow("robot.data")
				for n := range uint64(8) {
					data.put(n+1, 64)
					pc.follows("robot.data", n+1, 5*time.Second)
				}
				for range 3 {
					pc.stop()
					pc.run(pc.cfg, robot)
					w.within(5*time.Second, "the mirror", func() bool { return pc.mirror("robot.data").State == status.MirrorLive })
					time.Sleep(time.Second)
				}
				data.put(9, 64)
				pc.follows("robot.data", 9, 5*time.Second)
				consecutive(t, numbers(), 1, 9)
			})
		})
	}
}
