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
	"achbridge/localach"
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

// A reader that opened an empty file would never know that it is not fed.
func TestMirrorThatIsRefusedLeavesNoFile(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{Export: rule.Grants{{Channels: []string{"imu"}}}})
		robot.channel("imu", 4, 64).put(1, 64)
		pc.run(Config{}, robot)
		w.within(time.Second, "the channel", func() bool { return len(pc.node.Channels()) == 1 })
		robot.node.call(func() { robot.node.cfg.Export = rule.Grants{{Channels: []string{"imu"}, Hosts: []string{"nobody"}}} })
		if err := pc.node.Mirror(rule.Mirror{Host: "robot", Channel: "imu", QoS: rule.QoS{Meta: true}}); err != nil {
			t.Fatal(err)
		}
		w.within(time.Second, "the refusal", func() bool {
			if pc.has("robot.imu") || pc.has("robot.imu.meta") {
				t.Fatal("there is a file before the robot lets the PC read")
			}
			return pc.mirror("robot.imu").State == status.MirrorRefused
		})
		time.Sleep(5 * time.Second) // several looks at the mirror
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

// One that was there before the refusal stays: readers keep their handle.
func TestMirrorThatIsRefusedLaterKeepsItsFile(t *testing.T) {
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

// A frame that overtakes the origin's word finds a file, and all that comes of a
// channel that takes the name meanwhile is a refusal.
func TestFileOfAMirrorIsMadeByWhatComesFirst(t *testing.T) {
	dir := testDir(t)
	m := plannedMirror(t, dir, "m")
	m.expect(1, rule.QoS{})
	m.put(came(1, frame(1, 64)))
	if got := newestSeq(t, dir, "m"); got != 1 {
		t.Errorf("the mirror is at %d, want 1", got)
	}
	other := plannedMirror(t, dir, "o")
	have, _ := other.expect(1, rule.QoS{})
	ch, err := dir.Create("o", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 2, FrameSize: 8}})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	other.put(came(1, frame(1, 64)))
	if _, err := other.begin(1, 1, have); err != nil || ch.LastSeq() != 0 {
		t.Errorf("got %v and a channel at %d, want none of it written", err, ch.LastSeq())
	}
	if _, _, err := other.look(); err == nil {
		t.Error("the mirror, which has no file, looks good")
	}
}

func TestMirrorWaitsForTheOriginsWordWithoutAFile(t *testing.T) {
	m := plannedMirror(t, testDir(t), "m")
	if _, owed, err := m.look(); owed || err != nil {
		t.Errorf("got %v, %v, want nothing to mend", owed, err)
	}
}

func TestRoomThatIsGoneWhenTheFileIsMadeIsWaitedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		pc.run(Config{})
		var looks atomic.Int32
		var free atomic.Int64
		pc.node.call(func() {
			pc.node.space.free = func() (int64, error) {
				if looks.Add(1) == 1 {
					return 1 << 30, nil // when it is planned
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
