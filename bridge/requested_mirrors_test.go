package bridge

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

func TestUnmirrorKeepsForeignChannel(t *testing.T) {
	for what, adopt := range map[string][]string{"refused": nil, "adopted": {"robot.imu"}} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				robot.run(Config{})
				robot.channel("imu", 4, 64)
				pc.channel("robot.imu", 4, 64).put(99, 64)
				request := rule.Mirror{Host: "robot", Channel: "imu"}
				pc.run(Config{Mirrors: []rule.Mirror{request}, Adopt: adopt}, robot)
				w.within(time.Second, "the mirror", func() bool { return pc.mirror("robot.imu").State != status.MirrorWaiting })
				err := pc.node.Unmirror(request, Remove)
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

func TestUnmirroredChannelFallsBackToPattern(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		exact := rule.Mirror{Host: "robot", Channel: "imu", As: "imu"}
		pc.run(Config{Mirrors: []rule.Mirror{exact, {Host: "robot", Channel: "*"}}}, robot)
		pc.follows("imu", 1, time.Second)
		time.Sleep(time.Second)
		if err := pc.node.Unmirror(exact, Keep); err != nil {
			t.Fatal(err)
		}
		pc.follows("robot.imu", 1, time.Second)
	})
}

// A caller that adds a request and then reads the status must not see the old state.
func TestMirrorRequestIsInStatusAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		request := rule.Mirror{Host: "robot", Channel: "imu"}
		pc.run(Config{Mirrors: []rule.Mirror{request}}, robot)
		pc.follows("robot.imu", 1, time.Second)
		rest := func() { pc.node.loop.call(func() { pc.node.loop.restEnds = time.After(time.Second) }) }

		rest()
		request.QoS.Budget = 20 * time.Millisecond
		if err := pc.node.Mirror(request); err != nil {
			t.Fatal(err)
		}
		if got := pc.mirror("robot.imu").QoS.Budget; got != request.QoS.Budget {
			t.Errorf("after Mirror: got budget %v, want %v", got, request.QoS.Budget)
		}

		rest()
		if err := pc.node.Unmirror(request, Keep); err != nil {
			t.Fatal(err)
		}
		if list := pc.node.Status().Mirrors; len(list) != 0 {
			t.Errorf("after Unmirror: got %+v, want no mirror", list)
		}
	})
}
