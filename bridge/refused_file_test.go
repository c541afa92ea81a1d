package bridge

import (
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// has reports whether the host has a channel of that name.
func (h *host) has(name string) bool {
	h.w.t.Helper()
	ch, err := h.dir.TryOpen(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil {
		h.w.t.Fatal(err)
	}
	ch.Close()
	return true
}

// A reader of an empty file would not learn that the mirror is not fed.
func TestRefusedMirrorHasNoFile(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{Export: rule.Grants{{Channels: []string{"imu"}}}})
		robot.channel("imu", 4, 64).put(1, 64)
		pc.run(Config{}, robot)
		w.within(time.Second, "the channel", func() bool { return len(pc.node.Channels()) == 1 })
		robot.node.loop.call(func() { robot.node.cfg.Export = rule.Grants{{Channels: []string{"imu"}, Hosts: []string{"nobody"}}} })
		if err := pc.node.Mirror(rule.Mirror{Host: "robot", Channel: "imu", QoS: rule.QoS{Meta: true}}); err != nil {
			t.Fatal(err)
		}
		w.within(time.Second, "the refusal", func() bool {
			if pc.has("robot.imu") || pc.has("robot.imu.meta") {
				t.Fatal("there is a file before the robot lets the PC read")
			}
			return pc.mirror("robot.imu").State == status.MirrorRefused
		})
		time.Sleep(5 * time.Second) // several checks of the mirror
		if pc.has("robot.imu") || pc.has("robot.imu.meta") {
			t.Error("the mirror that was refused has a file")
		}
		if err := robot.node.Apply(Config{}); err != nil {
			t.Fatal(err)
		}
		pc.follows("robot.imu", 1, time.Second)
		if !pc.has("robot.imu.meta") {
			t.Error("the mirror has no companion")
		}
	})
}

// A file that exists before the refusal stays, and readers keep their handle.
func TestLaterRefusedMirrorKeepsFile(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu"}}}, robot)
		pc.follows("robot.imu", 1, time.Second)
		if err := robot.node.Apply(Config{Export: rule.Grants{}}); err != nil {
			t.Fatal(err)
		}
		w.within(time.Second, "the end of the mirror", func() bool { return pc.mirror("robot.imu").State != status.MirrorLive })
		if number, _ := pc.newest("robot.imu"); number != 1 {
			t.Errorf("the mirror holds frame %d, want 1", number)
		}
	})
}

func TestMirrorWaitsForFreeMemory(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		pc.run(Config{})
		var looks atomic.Int32
		var free atomic.Int64
		pc.node.loop.call(func() {
			pc.node.mirrors.common.Space.Free = func(int64) (int64, error) {
				if looks.Add(1) == 1 {
					return 1 << 30, nil // for the planning
				}
				return free.Load(), nil
			}
		})
		pc.node.SetPeers(asPeers([]*host{robot}))
		if err := pc.node.Mirror(rule.Mirror{Host: "robot", Channel: "imu"}); err != nil {
			t.Fatal(err)
		}
		w.within(time.Second, "the refusal", func() bool { return pc.mirror("robot.imu").State == status.MirrorRefused })
		if m := pc.mirror("robot.imu"); !strings.Contains(m.Reason, "no room in") || pc.has("robot.imu") {
			t.Errorf("got %+v, want no file and no room", m)
		}
		time.Sleep(5 * time.Second)
		pc.logged("mirror refused", 1)
		free.Store(1 << 30)
		pc.follows("robot.imu", 1, 2*time.Second)
	})
}
