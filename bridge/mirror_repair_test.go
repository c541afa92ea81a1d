package bridge

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/status"
	"achbridge/localach/damage"
)

func TestDirtyMirrorGetsNewestFrameAtStart(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		channel := robot.channel("map", 4, 64)
		channel.put(7, 64)
		pc.follows("robot.map", 7, time.Second)
		pc.stop()
		damage.MakeDirty(t, pc.dir, "robot.map")
		channel.put(8, 64)
		pc.run(pc.cfg, robot)
		w.within(3*time.Second, "a new file", func() bool { return pc.mirror("robot.map").Replaced == 1 })
		wantHealing(t, pc, "robot.map")
		pc.follows("robot.map", 8, 2*time.Second)
	})
}

// wantHealing checks that the events report the repair of a damaged mirror, and do not ask users
// to remove it.
func wantHealing(t *testing.T, h *host, name string) {
	t.Helper()
	list, err := h.node.Events(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Events {
		if e.Kind == status.EventUnusable && e.Channel == name {
			if !strings.Contains(e.Text, "is being repaired") || strings.Contains(e.Text, "channel rm") {
				t.Errorf("got %q, want that it is being repaired", e.Text)
			}
			return
		}
	}
	t.Errorf("got no event for %s, want one", name)
}

func TestNodeStopsWhileMirrorLockIsHeld(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		imu := robot.channel("imu", 4, 64)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, time.Second)
		damage.TakeLock(t, pc.dir, "robot.imu")
		imu.put(2, 64)
		time.Sleep(100 * time.Millisecond) // it has arrived, and the node repeatedly tries to put it
		began := time.Now()
		pc.stop()
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("leaving took %v, want less than 100 ms", took)
		}
	})
}
