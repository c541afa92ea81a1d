package bridge

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/testnet"
)

var wire10ms = testnet.Params{Delay: 10 * time.Millisecond}

// pair returns a robot that exports everything and a PC that mirrors all of it.
func (w *world) pair(link testnet.Params) (robot, pc *host) {
	robot, pc = w.host("robot", link), w.host("pc", link)
	robot.run(Config{})
	pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}, robot)
	return robot, pc
}

// The node may lose its handle of a channel that still exists. The catalog then has the same
// channel as before, but the peers' subscriptions have ended.
func TestMirrorFollowsReopenedChannel(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		imu := robot.channel("imu", 16, 64)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, time.Second)
		robot.node.loop.call(func() {
			robot.node.locals.Get("imu").Ring.Close()
			robot.node.localChanged("imu")
		})
		imu.put(2, 64)
		pc.follows("robot.imu", 2, 100*time.Millisecond)
	})
}

func TestMirrorFollowsRecreatedChannel(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		old := robot.channel("imu", 16, 64)
		for i := range uint64(50) {
			old.put(i+1, 64)
		}
		pc.follows("robot.imu", 50, time.Second)
		holder, err := pc.dir.Open("robot.imu")
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Close()

		old.close()
		if err := robot.dir.Unlink("imu"); err != nil {
			t.Fatal(err)
		}
		anew := robot.channel("imu", 8, 2048)
		anew.put(1, 2048) // does not fit the old mirror, whose file has room for 16 frames of 64 bytes
		pc.follows("robot.imu", 1, time.Second)
		if _, err := holder.Reader().Last(make([]byte, 1024)); !errors.Is(err, localach.ErrCorrupt) {
			t.Errorf("a reader of the replaced mirror got %v, want ErrCorrupt", err)
		}
		if m := pc.mirror("robot.imu"); m.Replaced != 1 {
			t.Errorf("mirror was replaced %d times, want once", m.Replaced)
		}
	})
}

func TestMirrorKeepsItsFileWhileFramesFit(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		old := robot.channel("imu", 16, 64)
		old.put(7, 64)
		pc.follows("robot.imu", 7, time.Second)
		holder, err := pc.dir.Open("robot.imu")
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Close()
		old.close()
		robot.dir.Unlink("imu")
		robot.channel("imu", 4, 32).put(1, 32)
		pc.follows("robot.imu", 1, time.Second)
		if err := holder.Check(); err != nil {
			t.Errorf("a reader that kept its handle got %v, want the same file", err)
		}
	})
}

func lastSeq(t *testing.T, h *host, name string) uint64 {
	t.Helper()
	ch, err := h.dir.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	return ch.LastSeq()
}

func TestSimultaneousDialsKeepOneLink(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.host("a", wire10ms), w.host("b", wire10ms)
		a.channel("x", 4, 64).put(1, 64)
		b.channel("y", 4, 64).put(2, 64)
		a.run(Config{Mirrors: []rule.Mirror{{Host: "b", Channel: "y"}}}, b)
		b.run(Config{Mirrors: []rule.Mirror{{Host: "a", Channel: "x"}}}, a)
		a.node.SetPeers(asPeers([]*host{b}))
		a.follows("b.y", 2, time.Second)
		b.follows("a.x", 1, time.Second)
		time.Sleep(10 * time.Second)
		la, lb := a.node.Status().Links, b.node.Status().Links
		if len(la) != 1 || len(lb) != 1 || !la[0].Dialled || lb[0].Dialled {
			t.Errorf("got links %+v and %+v, want one, dialled by a", la, lb)
		}
		if n := strings.Count(a.log.String()+b.log.String(), "link up"); n > 6 {
			t.Errorf("got %d link events, want at most 6", n)
		}
	})
}

// Every host requests and relays all channels. Frames that return by any route are refused.
func TestMutualRelaysMakeNoLoop(t *testing.T) {
	inWorld(t, func(w *world) {
		all := Config{Mirrors: []rule.Mirror{{Host: "*", Channel: "*"}}, Relay: []string{"*"}}
		robot, pc, base := w.host("robot", wire10ms), w.host("pc", wire10ms), w.host("base", wire10ms)
		robot.channel("imu", 16, 64).put(1, 64)
		robot.run(all)
		pc.run(all, robot)
		base.run(all, robot, pc)
		pc.follows("robot.imu", 1, time.Second)
		base.follows("robot.imu", 1, time.Second)
		pc.stop()
		pc.run(all, robot, base) // finds its mirror's file, and perhaps the base before the robot
		pc.follows("robot.imu", 1, time.Second)
		time.Sleep(2 * time.Second)
		for _, h := range []*host{robot, pc, base} {
			for _, m := range h.node.Status().Mirrors {
				if m.State == status.MirrorLive && strings.Contains(m.Name, h.name+".") {
					t.Errorf("%s mirrors %s, which has been there before", h.name, m.Name)
				}
			}
		}
	})
}

func TestPushIsRefusedUnlessAccepted(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{Accept: rule.GrantTo("plan")})
		pc.run(Config{Export: rule.GrantTo()}, robot)
		pc.channel("plan", 4, 64).put(1, 64)
		pc.channel("gripper", 4, 64).put(1, 64)
		w.within(time.Second, "link", func() bool { return len(pc.node.Status().Links) == 1 })

		if err := pc.node.Push(w.t.Context(), rule.Push{Channel: "gripper", Host: "robot"}); err == nil || !strings.Contains(err.Error(), "--accept") {
			t.Errorf("got %v, want a refusal that names --accept", err)
		}
		if err := pc.node.Push(w.t.Context(), rule.Push{Channel: "plan", Host: "robot"}); err != nil {
			t.Errorf("got %v, want the push accepted", err)
		}
		robot.follows("plan", 1, time.Second)
		if n, _ := robot.newest("gripper"); n != 0 {
			t.Errorf("robot has gripper at %d, want no such channel", n)
		}
	})
}

// No other event makes the node check its requests.
func TestPushOfAnExportedChannelIsOfferedAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{Accept: rule.GrantTo("plan")})
		pc.run(Config{}, robot)
		pc.channel("plan", 4, 64).put(1, 64)
		w.within(time.Second, "the channel", func() bool { return len(robot.node.Channels()) == 1 })
		if err := pc.node.Push(w.t.Context(), rule.Push{Channel: "plan", Host: "robot"}); err != nil {
			t.Errorf("got %v, want the push accepted", err)
		}
		robot.follows("plan", 1, time.Second)
	})
}

func TestUnmirrorRemovesFileOnRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		request := rule.Mirror{Host: "robot", Channel: "imu"}
		pc.run(Config{Mirrors: []rule.Mirror{request}}, robot)
		pc.follows("robot.imu", 1, time.Second)
		if err := pc.node.Unmirror(rule.Mirror{Host: "robot", Channel: "joints"}, Keep); err == nil {
			t.Error("removing a missing request succeeded, want an error")
		}
		if err := pc.node.Unmirror(request, Remove); err != nil {
			t.Fatal(err)
		}
		if n, _ := pc.newest("robot.imu"); n != 0 {
			t.Error("the mirror's file is still there")
		}
	})
}

func TestRemovedMirrorFileIsRestored(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		robot.channel("imu", 4, 64).put(1, 64)
		pc.follows("robot.imu", 1, time.Second)
		if err := pc.dir.Unlink("robot.imu"); err != nil {
			t.Fatal(err)
		}
		pc.follows("robot.imu", 1, 2*time.Second)
	})
}

// A writer that died inside put leaves the dirty flag set permanently. Only a new channel helps,
// and the mirror follows it automatically.
func TestDirtyChannelIsReportedThenFollowed(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		imu := robot.channel("imu", 4, 64)
		imu.put(5, 64)
		other := robot.channel("other", 4, 64)
		pc.follows("robot.imu", 5, time.Second)
		const dirty = 304 // ach-abi
		file, err := os.OpenFile(filepath.Join(string(robot.dir), "achshm-imu"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteAt([]byte{1}, dirty); err != nil {
			t.Fatal(err)
		}
		w.within(3*time.Second, "the robot names the dirty channel", func() bool {
			for _, l := range robot.node.Status().Locals {
				if l.Channel == "imu" && !l.Exported && l.Reason != "" {
					return true
				}
			}
			return false
		})
		other.put(9, 64)
		pc.follows("robot.other", 9, time.Second)
		imu.close()
		robot.dir.Unlink("imu")
		robot.channel("imu", 4, 64).put(1, 64)
		pc.follows("robot.imu", 1, 3*time.Second)
	})
}

// A continuous supply of functions for the node does not stop its ticks.
func TestLoopDrainsOnlyQueuedFunctions(t *testing.T) {
	l := newLoop()
	done := 0
	var more func()
	more = func() {
		if done++; done < 1000 {
			l.post(more)
		}
	}
	l.post(more)
	if l.drain(); done != 1 {
		t.Errorf("got %d pieces of work done, want the one that was there", done)
	}
}

func TestSlowPollIsFollowedByPause(t *testing.T) {
	if got := restAfter(slowChange / 2); got != 0 {
		t.Errorf("got a rest of %v after a quick look, want none", got)
	}
	if got := restAfter(100 * time.Millisecond); got != restShare*100*time.Millisecond {
		t.Errorf("got a rest of %v after 100 ms, want %v", got, restShare*100*time.Millisecond)
	}
}
