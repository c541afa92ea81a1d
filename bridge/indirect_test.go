package bridge

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// A host finds a channel at a relay first and at its origin later. From then on the frames arrive
// directly, and only once.
func TestDirectMirrorReplacesIndirectMirror(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, base, pc := w.host("robot", wire10ms), w.host("base", wire10ms), w.host("pc", wire10ms)
		imu := robot.channel("imu", 4, 64)
		robot.run(Config{})
		all := []rule.Mirror{{Host: "*", Channel: "*"}}
		base.run(Config{Mirrors: all, Relay: []string{"*"}}, robot)
		pc.run(Config{Mirrors: all}, base)
		imu.put(1, 64)
		pc.follows("base.robot.imu", 1, 5*time.Second)
		pc.node.SetPeers(asPeers([]*host{robot, base}))
		pc.follows("robot.imu", 1, 5*time.Second)
		for i := uint64(2); i < 100; i++ {
			imu.put(i, 64)
			time.Sleep(10 * milli)
		}
		pc.follows("robot.imu", 99, time.Second)
		indirect := pc.mirror("base.robot.imu")
		if indirect.State != status.MirrorRefused || !strings.Contains(indirect.Reason, "as robot.imu") || indirect.Seq > 50 {
			t.Errorf("got %s (%s) at frame %d, want it refused for robot.imu", indirect.State, indirect.Reason, indirect.Seq)
		}
		if loops := pc.events(status.EventLoop); len(loops) != 1 || loops[0].Mirror != "base.robot.imu" || loops[0].Host != "base" {
			t.Errorf("got the events %+v, want one of the loop", loops)
		}
	})
}

// However often a channel is relayed, its origin is known. Otherwise loops and duplicates could
// not be detected.
func TestRelayChainKeepsOrigin(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, base, pc := w.host("robot", wire10ms), w.host("base", wire10ms), w.host("pc", wire10ms)
		robot.channel("imu", 4, 64).put(1, 64)
		robot.run(Config{})
		base.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu"}}, Relay: []string{"*"}}, robot)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "base", Channel: "robot.imu"}}, Relay: []string{"*"}}, base)
		pc.follows("base.robot.imu", 1, 5*time.Second)
		var got *wire.Origin
		w.within(5*time.Second, "the relay's relay", func() bool {
			pc.node.loop.call(func() {
				if c := pc.node.locals.Get("base.robot.imu"); c != nil {
					got = pc.node.mirrors.originOf(c)
				}
			})
			return got != nil
		})
		if want := (wire.Origin{Node: robot.id, Host: "robot", Channel: "imu"}); *got != want {
			t.Errorf("got %+v, want %+v", *got, want)
		}
	})
}
