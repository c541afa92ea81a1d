package bridge

import (
	"strings"
	"testing"
	"time"
)

func TestUnmirrorLeavesAChannelThatIsNotOurs(t *testing.T) {
	for what, adopt := range map[string][]string{"refused": nil, "adopted": {"robot.imu"}} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				robot.run(Config{})
				robot.channel("imu", 4, 64)
				pc.channel("robot.imu", 4, 64).put(99, 64)
				wish := Mirror{Host: "robot", Channel: "imu"}
				pc.run(Config{Mirrors: []Mirror{wish}, Adopt: adopt}, robot)
				w.within(time.Second, "the mirror", func() bool { return pc.mirror("robot.imu").State != stateWaiting })
				err := pc.node.Unmirror(wish, Remove)
				if err == nil || !strings.Contains(err.Error(), "its file stays") {
					t.Errorf("got %v, want an error that says that the file stays", err)
				}
				if n, _ := pc.newest("robot.imu"); n != 99 {
					t.Errorf("got frame %d in the channel that is not ours, want 99", n)
				}
				if got := len(pc.node.Status().Mirrors); got != 0 {
					t.Errorf("got %d mirrors, want none", got)
				}
			})
		})
	}
}

func TestUnmirroredChannelFallsBackToAPattern(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		exact := Mirror{Host: "robot", Channel: "imu", As: "imu"}
		pc.run(Config{Mirrors: []Mirror{exact, {Host: "robot", Channel: "*"}}}, robot)
		pc.follows("imu", 1, time.Second)
		time.Sleep(time.Second)
		if err := pc.node.Unmirror(exact, Keep); err != nil {
			t.Fatal(err)
		}
		pc.follows("robot.imu", 1, time.Second)
	})
}
