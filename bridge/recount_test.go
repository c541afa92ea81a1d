package bridge

import (
	"fmt"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach/damage"
)

// The tests of this file check that a frame which arrives more than once is counted once, with the last outcome.

func TestFrameResentForNewFileIsCountedOnce(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("captured %v", known), func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				goal := robot.channel("data", 16, 64)
				if !known {
					goal.put(1, 64) // before its capture time could be known
				}
				robot.run(Config{})
				pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "data"}}}, robot)
				w.within(2*second, "mirror", func() bool { return pc.mirror(flowName).State == status.MirrorLive })
				if known {
					goal.put(1, 64)
				}
				pc.follows(flowName, 1, 2*second)
				time.Sleep(second)
				damage.MakeDirty(t, pc.dir, flowName)
				w.within(2*second, "a new file", func() bool { return pc.mirror(flowName).Replaced == 1 })
				pc.follows(flowName, 1, 2*second)
				time.Sleep(2 * second)
				got := pc.mirror(flowName).FrameCounters
				if want := (ledger.FrameCounters{Offered: 1, LateKept: 1}); got != want && (!known || got != ledger.FrameCounters{Offered: 1, Delivered: 1}) {
					t.Errorf("got %+v, want %+v", got, want)
				}
				if there := robot.node.Status().Exports[0].FrameCounters; there != got {
					t.Errorf("the origin has %+v, its mirror %+v", there, got)
				}
			})
		})
	}
}

// The mirror had the frame when it subscribed; then its file is lost.
func TestLostMirrorFileGetsFrameOfFormerLinkAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		robot.channel("map", 4, 64).put(7, 64)
		pc.follows("robot.map", 7, time.Second)
		pc.stop()
		pc.run(pc.cfg, robot)
		w.within(2*second, "mirror", func() bool { return pc.mirror("robot.map").State == status.MirrorLive })
		damage.MakeDirty(t, pc.dir, "robot.map")
		w.within(2*second, "a new file", func() bool { return pc.mirror("robot.map").Replaced == 1 })
		pc.follows("robot.map", 7, 2*second)
		time.Sleep(2 * second)
		got, there := pc.mirror("robot.map").FrameCounters, robot.node.Status().Exports[0].FrameCounters
		if got != there || got.Settled() != 1 || got.Offered != 1 {
			t.Errorf("got %+v, and %+v at the origin, want one frame", got, there)
		}
	})
}
