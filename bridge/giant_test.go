package bridge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/trust"
)

// holds limits the memory for mirrors in a host's channel directory, in MiB.
func (h *host) holds(mib int64) {
	h.node.loop.call(func() {
		h.node.mirrors.common.Space.Free = func(used int64) (int64, error) { return 2*mib<<20 - used, nil } // mirrors may take half of the free memory
	})
}

// withFiles counts the mirrors with a file whose channels begin with prefix.
func (h *host) withFiles(prefix string) (n int) {
	for _, m := range h.node.Status().Mirrors {
		if strings.HasPrefix(m.Channel, prefix) && h.has(m.Name) {
			n++
		}
	}
	return n
}

// A local user of a robot may make giant sparse channels before any other channel is made.
func TestGiantMirrorsLeaveRoomForOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, arm, pc := w.host("robot", wire10ms), w.host("arm", wire10ms), w.host("pc", wire10ms)
		for i := range 10 {
			robot.channel(fmt.Sprint("giant", i), 2, 1<<20)
			arm.channel(fmt.Sprint("giant", i), 2, 1<<20)
		}
		robot.run(Config{})
		arm.run(Config{})
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "*", Channel: "*"}}})
		pc.holds(17) // room for eight giants, and a little more
		pc.node.SetPeers(asPeers([]*host{robot}))
		w.within(5*time.Second, "the giants", func() bool { return len(pc.node.Status().Mirrors) == 10 && pc.withFiles("giant") >= 4 })
		pc.node.SetPeers(asPeers([]*host{robot, arm}))
		w.within(5*time.Second, "the arm's", func() bool { return len(pc.node.Status().Mirrors) == 20 })
		time.Sleep(2 * time.Second)
		if n := pc.withFiles("giant"); n != 6 {
			t.Errorf("got %d giants, want 4 of the robot, in half of the room, and 2 of the arm, in three quarters", n)
		}
		told := 0
		for _, m := range pc.node.Status().Mirrors {
			if m.State == status.MirrorRefused && m.Cause == status.CauseShmShare && strings.Contains(m.Reason, "name the channel") {
				told++
			}
		}
		if told != 14 {
			t.Errorf("got %d refused mirrors with a reason, want 14", told)
		}
		for i := range 3 {
			robot.channel(fmt.Sprint("camera", i), 2, 400<<10).put(1, 1000)
		}
		for i := range 3 {
			pc.follows(fmt.Sprint("robot.camera", i), 1, 2*time.Second)
		}
		request := rule.Mirror{Host: "robot", Channel: "giant9"}
		if pc.has("robot.giant9") {
			t.Fatal("giant9 has its file already")
		}
		if err := pc.node.Mirror(request); err != nil {
			t.Fatal(err)
		}
		w.within(5*time.Second, "a file for the giant that is named", func() bool { return pc.has("robot.giant9") })
	})
}

// A host can push channels that no request here names.
func TestUnrequestedChannelsAreAttributedToHost(t *testing.T) {
	n := &Node{links: map[trust.NodeID]*link{}}
	n.links[trust.NodeID{1}] = &link{n: n, host: "robot", offers: offers{accepted: []pushed{{Mirror: rule.Mirror{Host: "robot", Channel: "goal"}}}}}
	n.requests.added = []rule.Mirror{{Host: "robot", Channel: "imu"}, {Host: "robot", Channel: "*"}}
	n.requests.rules = rule.Mirrors{{Host: "robot", Channel: "map"}, {Host: "robot", Channel: "secret", Deny: true}}
	for channel, want := range map[string]string{"imu": "", "map": "", "goal": "robot", "camera": "robot", "secret": "robot"} {
		if got := n.requests.broughtBy("robot", channel); got != want {
			t.Errorf("%s: got %q, want %q", channel, got, want)
		}
	}
}
