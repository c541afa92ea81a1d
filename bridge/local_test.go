package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"achbridge/bridge/rule"
)

func TestHalfCreatedChannelsHoldUpNobody(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		for i := range 26 {
			if err := os.WriteFile(filepath.Join(string(robot.dir), fmt.Sprintf("achshm-c%d", i)), nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		robot.run(Config{})
		time.Sleep(5 * time.Second)
		worst := time.Duration(0)
		for range 20 {
			begin := time.Now()
			robot.node.Status()
			worst = max(worst, time.Since(begin))
			time.Sleep(130 * time.Millisecond)
		}
		if worst > 0 {
			t.Errorf("the node was busy for %v, want it to wait for nothing", worst)
		}
	})
}

func TestAdoptedMirrorIsNotOfferedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, other := w.host("robot", wire10ms), w.host("pc", wire10ms), w.host("other", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		pc.channel("robot.imu", 4, 64)
		wish := rule.Mirror{Host: "robot", Channel: "imu"}
		pc.run(Config{Mirrors: []rule.Mirror{wish}, Adopt: []string{"robot.imu"}}, robot)
		pc.follows("robot.imu", 1, time.Second)
		other.run(Config{}, pc)
		w.within(time.Second, "link", func() bool { return len(other.node.Status().Links) == 1 })
		time.Sleep(time.Second)
		if list := other.node.Channels(); len(list) != 0 {
			t.Errorf("the PC offers %+v, want nothing", list)
		}
		if err := pc.node.Unmirror(wish, Keep); err != nil {
			t.Fatal(err)
		}
		w.within(time.Second, "the channel is the PC's own again", func() bool { return len(other.node.Channels()) == 1 })
	})
}
