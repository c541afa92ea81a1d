package bridge

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"achbridge/wire"
)

// These faults were found by testnet/model: events between two steps that seem to be one.

// The file disappears and returns before the node has informed its peers.
func TestMirrorFollowsBrieflyRemovedChannel(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		imu := robot.channel("imu", 16, 64)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, time.Second)

		file := filepath.Join(string(robot.dir), "achshm-imu")
		robot.node.loop.call(func() {
			for _, step := range [][2]string{{file, file + "-away"}, {file + "-away", file}} {
				if err := os.Rename(step[0], step[1]); err != nil {
					t.Error(err)
				}
				robot.node.localChanged("imu")
			}
		})
		imu.put(2, 64)
		pc.follows("robot.imu", 2, time.Second)
	})
}

// Both messages arrive before the node acts on the first.
func TestWithdrawnAndReofferedChannelIsResubscribed(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		robot.channel("imu", 16, 64).put(1, 64)
		pc.follows("robot.imu", 1, time.Second)

		var before, after uint32
		pc.node.loop.call(func() {
			m := pc.node.mirrors.byName["robot.imu"]
			l := m.link
			before = m.subID
			again := l.catalog.remote.channels["imu"]
			pc.node.catalog(l, wire.Catalog{Gone: []string{"imu"}})
			pc.node.catalog(l, wire.Catalog{Channels: []wire.Channel{again}})
		})
		w.within(time.Second, "a subscription", func() bool {
			pc.node.loop.call(func() { after = pc.node.mirrors.byName["robot.imu"].subID })
			return after != 0
		})
		if after == before {
			t.Errorf("subscription: got %d as before, want another", after)
		}
	})
}
