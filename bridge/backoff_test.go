package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/status"
)

// Discovery drops a host that is cut off. It finds the host again some time after the network has
// returned.
func TestMirrorRecoversAfterDiscoveryLosesPeer(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.streaming(pcDials, 64)
		w.change("robot", "cut")
		time.Sleep(20 * time.Second)
		pc.node.SetPeers(nil)
		time.Sleep(40 * time.Second)
		w.change("robot", "up")
		t.Logf("fresh again after %v", pc.freshWithin(2*time.Second, "robot.imu"))
		if got := pc.link().Node; got != robot.id.String() {
			t.Errorf("linked to %v, want %v", got, robot.id)
		}
	})
}

func TestPeerIsRemovedAfterBye(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.streaming(pcDials, 64)
		pc.node.SetPeers(nil) // as if discovery had found the peer before the link recovered
		if got := pc.node.Status().Peers; len(got) != 1 {
			t.Errorf("while there is a link: got peers %+v, want one", got)
		}
		robot.stop()
		w.within(time.Second, "no peer", func() bool { return len(pc.node.Status().Peers) == 0 })
	})
}

// A peer that receives a Bye dials again a moment later. A busy host may not have closed its
// sockets by then.
func TestNodeAcceptsNoLinkAfterBye(t *testing.T) {
	for _, over := range overs {
		t.Run(over, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				robot.over, pc.over, robot.lingers = over, over, time.Second
				robot.run(Config{})
				pc.run(allOfTheRobot)
				pc.node.SetPeers([]Peer{robot.asPeer("")})
				w.within(5*time.Second, "link", func() bool { return pc.link().State == status.LinkUp })
				time.Sleep(settled)
				robot.stop()
				if n := pc.said("link up"); n != 1 {
					t.Errorf("got %d links, want none with a node that has said goodbye", n)
				}
			})
		})
	}
}
