package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// adopting is a robot and a PC that has a channel of its own for the robot's frames.
func adopting(w *world, qos rule.QoS) (robot, pc *host, data *channel) {
	robot, pc = w.host("robot", wire10ms), w.host("pc", wire10ms)
	data = robot.channel("data", 64, 64)
	robot.run(Config{})
	pc.channel("robot.data", 64, 64)
	pc.run(Config{Adopt: []string{"robot.data"}, Mirrors: []rule.Mirror{{Host: "robot", Channel: "data", QoS: qos}}}, robot)
	return robot, pc, data
}

func TestAdoptedChannelGetsNoFrameTwiceWhenItsDaemonIsStartedAgain(t *testing.T) {
	for what, qos := range map[string]rule.QoS{"every": {Mode: rule.Every}, "newest": {}} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc, data := adopting(w, qos)
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
