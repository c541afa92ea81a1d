package bridge

import (
	"net"
	"slices"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
)

// The robot roams to another address and cannot announce it on the link. Discovery knows the new
// address long before the old link falls silent.
func TestMovedPeerIsDialledAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		before, after, pc := w.host("robot", wire10ms), w.host("robot", wire10ms), w.host("pc", wire10ms)
		after.id, after.machine = before.id, before.machine
		before.run(Config{})
		before.channel("imu", 4, 64).put(1, 64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}, before)
		pc.follows("robot.imu", 1, time.Second)
		if err := w.net.Change("robot", "cut"); err != nil {
			t.Fatal(err)
		}
		after.run(Config{})
		after.channel("imu", 4, 64).put(2, 64)
		peers := asPeers([]*host{after})
		pc.node.SetPeers(peers)
		// A further address that is found a moment later changes nothing.
		peers[0].Addrs = append(slices.Clone(peers[0].Addrs), transport.Addrs{QUIC: &net.UDPAddr{IP: net.IPv6loopback, Port: port}})
		pc.node.SetPeers(peers)
		pc.follows("robot.imu", 2, 500*time.Millisecond)
	})
}
