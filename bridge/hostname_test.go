package bridge

import (
	"slices"
	"testing"
	"time"

	"achbridge/bridge/rule"
)

func TestMirrorsFollowHostWithNewNodeID(t *testing.T) {
	for who, start := range map[string]func(robot, pc *host){"PC dials": pcDials, "robot dials": robotDials} {
		for what, last := range map[string]byte{"lower id": 0, "higher id": 255} {
			t.Run(who+", "+what, func(t *testing.T) {
				inWorld(t, func(w *world) {
					robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
					start(robot, pc)
					if len(robot.dials) == 0 {
						listed := asPeers([]*host{robot}) // listed only by address
						listed[0].Host, listed[0].Node = "", ""
						pc.node.SetPeers(listed)
					}
					robot.channel("imu", 16, 64).streams(64)
					pc.freshWithin(time.Second, "robot.imu")
					time.Sleep(settled)
					robot.vanish()
					robot.id[15] = last
					robot.run(robot.cfg, robot.dials...)
					t.Logf("followed after %v", pc.freshWithin(2*time.Second, "robot.imu"))
					time.Sleep(20 * time.Second)
					links := pc.node.Status().Links
					if len(links) != 1 || links[0].Peer != "robot" || links[0].Node != robot.id.String() {
						t.Errorf("got links %+v, want one to the new node", links)
					}
					pc.freshWithin(0, "robot.imu")
				})
			})
		}
	}
}

func TestSilentHostKeepsNameDespiteNamesake(t *testing.T) {
	inWorld(t, func(w *world) {
		first, second, pc := w.host("krang", wire10ms), w.host("krang", wire10ms), w.host("pc", wire10ms)
		first.run(Config{})
		second.run(Config{})
		first.channel("imu", 16, 64).streams(64)
		second.channel("imu", 4, 64).put(2, 64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "krang*", Channel: "*"}}})
		peers := asPeers([]*host{first, second})
		for i := range peers {
			peers[i].Host, peers[i].Node = "", "" // listed by address only
		}
		pc.node.SetPeers(peers)
		pc.freshWithin(2*time.Second, "krang.imu")
		pc.follows("krang-"+second.id.String()[:4]+".imu", 2, 2*time.Second)
		if pc.said("start one with another --name") == 0 {
			t.Error("the log does not say what to do about the name")
		}
		time.Sleep(settled)
		before := linked(pc)
		w.change("krang", "cut")
		time.Sleep(3 * time.Second)
		w.change("krang", "up")
		pc.freshWithin(150*time.Millisecond, "krang.imu")
		if after := linked(pc); !slices.Equal(before, after) || len(after) != 2 {
			t.Errorf("got links to %v, before that %v", after, before)
		}
	})
}

// Discovery finds the two hosts with one name one after the other. The first link starts while its
// host is the only krang.
func TestHostIsDisambiguatedWhenNamesakeAppears(t *testing.T) {
	inWorld(t, func(w *world) {
		first, second, pc := w.host("krang", wire10ms), w.host("krang", wire10ms), w.host("pc", wire10ms)
		first.id[0], second.id[0] = 255, 1
		first.run(Config{})
		second.run(Config{})
		first.channel("imu", 16, 64).streams(64)
		second.channel("imu", 16, 64).streams(64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "krang*", Channel: "*"}}})
		peers := asPeers([]*host{first, second})
		for i := range peers {
			peers[i].Host = "krang"
		}
		pc.node.SetPeers(peers[:1])
		pc.freshWithin(2*time.Second, "krang.imu")
		renamed := "krang-" + first.id.String()[:4]
		peers[0].Host = renamed
		pc.node.SetPeers(peers)
		pc.freshWithin(2*time.Second, renamed+".imu")
		pc.freshWithin(2*time.Second, "krang.imu")
		for _, l := range pc.node.Status().Links {
			if want := map[string]string{first.id.String(): renamed, second.id.String(): "krang"}[l.Node]; l.Peer != want {
				t.Errorf("got a link to %s as %s, want it as %s", l.Node, l.Peer, want)
			}
		}
	})
}

func linked(h *host) (list []string) {
	for _, l := range h.node.Status().Links {
		list = append(list, l.Peer+" "+l.Node)
	}
	return list
}
