package bridge

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

func (h *host) said(text string) int { return strings.Count(h.log.String(), text) }

func (h *host) link() status.Link {
	if list := h.node.Status().Links; len(list) == 1 {
		return list[0]
	}
	return status.Link{}
}

func TestVanishedPeerIsSilentThenDown(t *testing.T) {
	for what, size := range map[string]int{"streaming": 64, "without a channel": 0} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				pcDials(robot, pc)
				if size > 0 {
					robot.channel("imu", 16, size).streams(size)
				}
				w.within(time.Second, "link", func() bool { return pc.link().State == status.LinkUp })
				time.Sleep(10 * time.Second)
				if n := pc.said("link silent") + robot.said("link silent"); n != 0 {
					t.Fatalf("silent %d times before", n)
				}
				w.change("robot", "cut")
				gone := time.Now()
				w.within(time.Second, "silence", func() bool { return pc.link().State == status.LinkSilent && robot.link().State == status.LinkSilent })
				time.Sleep(2 * time.Second)
				if s := pc.link().SilentS; s < 2 || s > time.Since(gone).Seconds()+0.3 {
					t.Errorf("silent for %v s, want %v at most", s, time.Since(gone))
				}
				if m := pc.mirror("robot.imu"); size > 0 && (m.State != status.MirrorWaiting || !strings.HasPrefix(m.Reason, "robot is silent for ")) {
					t.Errorf("got mirror %+v, want it waiting since its host is silent", m)
				}
				if list := pc.node.Channels(); len(list) != 0 {
					t.Errorf("channels of the silent host: got %+v, want none", list)
				}
				w.within(11*time.Second-time.Since(gone), "link down", func() bool {
					return len(pc.node.Status().Links) == 0 && len(robot.node.Status().Links) == 0
				})
				if n := pc.said("link silent"); n != 1 || pc.said("link heard again") != 0 {
					t.Errorf("the log says %d times that the link is silent, want once", n)
				}
			})
		})
	}
}

func TestLossyLinkIsNotSilent(t *testing.T) {
	lossy := wire10ms
	lossy.Loss = 0.1
	for what, class := range map[string]rule.Class{"state": rule.State, "command": rule.Command} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", lossy), w.host("pc", lossy)
				robot.run(Config{})
				pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", QoS: rule.QoS{Class: class}}}}, robot)
				goal := robot.channel("goal", 16, 64)
				for i := range uint64(100) {
					goal.put(i+1, 64)
					time.Sleep(500 * time.Millisecond)
				}
				// About one frame in 100,000 is lost with all its retransmissions within 300 ms.
				if n := robot.said("link silent") + pc.said("link silent"); n > 1 {
					t.Errorf("the link was silent %d times in 100 frames, want once at most", n)
				}
			})
		})
	}
}

func TestListedPeerIsMissingWhileSilent(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		pc.run(Config{}, robot)
		for _, change := range []string{"up", "cut", "up"} {
			w.change("robot", change)
			missing := change == "cut"
			w.within(time.Second, change, func() bool { return pc.node.ListedMissing() == missing })
		}
		w.change("robot", "cut")
		w.within(15*time.Second, "link down", func() bool { return len(pc.node.Status().Links) == 0 })
		if !pc.node.ListedMissing() || robot.node.ListedMissing() {
			t.Errorf("without a link: got %v for who lists and %v for who is listed, want true and false", pc.node.ListedMissing(), robot.node.ListedMissing())
		}
	})
}
