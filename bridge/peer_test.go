package bridge

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
)

// The robot roams to another address and has no time to say so: its new place
// is known to discovery long before the old link falls silent.
func TestLinkedPeerThatMovedIsDialledAtOnce(t *testing.T) {
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
		// What is learnt of its addresses a moment later changes nothing.
		peers[0].Addrs = append(slices.Clone(peers[0].Addrs), transport.Addrs{QUIC: &net.UDPAddr{IP: net.IPv6loopback, Port: port}})
		pc.node.SetPeers(peers)
		pc.follows("robot.imu", 2, 500*time.Millisecond)
	})
}

// Another robot has got the address under which a robot is still listed.
func TestAddressOfAnotherDisturbsNoLink(t *testing.T) {
	inWorld(t, func(w *world) {
		krang, pc := w.host("krang", wire10ms), w.host("pc", wire10ms)
		krang.run(Config{})
		krang.channel("imu", 16, 64).streams(64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "*", Channel: "*"}}}, krang)
		pc.freshWithin(time.Second, "krang.imu")
		listed := asPeers([]*host{krang, krang})
		listed[1].Host, listed[1].Node = "robot", trust.NodeID{1}.String()
		pc.node.SetPeers(listed)
		time.Sleep(10 * time.Second)
		if got, want := strings.Count(pc.log.String(), "link up"), 1; got != want {
			t.Errorf("got %d links one after the other, want %d:\n%s", got, want, pc.log)
		}
		if want := "krang, node " + krang.id.String() + ", answers there"; !strings.Contains(pc.log.String(), want) {
			t.Errorf("log: got\n%s\nwant %q", pc.log, want)
		}
		pc.freshWithin(0, "krang.imu")
	})
}

// A robot has moved and its former address, which is still listed, has gone to
// another one.
func TestRobotIsFoundBehindTheAddressOfAnother(t *testing.T) {
	inWorld(t, func(w *world) {
		krang, robot, pc := w.host("krang", wire10ms), w.host("robot", wire10ms), w.host("pc", wire10ms)
		krang.run(Config{})
		robot.run(Config{})
		krang.channel("imu", 16, 64).streams(64)
		robot.channel("imu", 16, 64).streams(64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "*", Channel: "*"}}}, krang)
		pc.freshWithin(time.Second, "krang.imu")
		listed := asPeers([]*host{krang, robot})
		listed[1].Addrs = slices.Concat(listed[0].Addrs, listed[1].Addrs)
		pc.node.SetPeers(listed)
		pc.freshWithin(500*time.Millisecond, "robot.imu")
		time.Sleep(10 * time.Second)
		if got, want := strings.Count(pc.log.String(), "link up"), 2; got != want {
			t.Errorf("got %d links one after the other, want %d:\n%s", got, want, pc.log)
		}
		pc.freshWithin(0, "krang.imu")
	})
}
