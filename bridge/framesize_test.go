package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// As on the main channel of a humanoid, frames are larger than the nominal size.
func TestAdoptedChannelTakesFramesAboveNominalSize(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		state := robot.channel("state", 10, 3000)
		robot.run(Config{})
		pc.channel("state", 10, 3000)
		request := rule.Mirror{Host: "robot", Channel: "state", As: "state"}
		pc.run(Config{Mirrors: []rule.Mirror{request}, Adopt: []string{"state"}}, robot)
		for i := range uint64(20) {
			state.put(i+1, 3898)
			time.Sleep(10 * time.Millisecond)
		}
		pc.follows("state", 20, 2*time.Second)
		if m := pc.mirror("state"); m.State != status.MirrorLive || m.Refused != 0 {
			t.Errorf("got state %s with %d frames refused, want live with none", m.State, m.Refused)
		}
	})
}

func TestMirrorFileIsCreatedLargeEnough(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		state := robot.channel("state", 10, 3000)
		for i := range uint64(20) {
			state.put(i+1, 1000+100*int(i))
		}
		robot.run(Config{})
		state.put(21, 3898)
		pc := w.host("pc", wire10ms).run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "state"}}}, robot)
		pc.follows("robot.state", 21, 2*time.Second)
		ch, err := pc.dir.Open("robot.state")
		if err != nil {
			t.Fatal(err)
		}
		defer ch.Close()
		if g := ch.Geometry(); g.FrameCount != 10 || g.FrameSize != 3898 {
			t.Errorf("the mirror is %v, want 10x3898", g)
		}
		state.put(22, 20000)
		pc.follows("robot.state", 22, 2*time.Second)
		if ch.Check() != nil || pc.mirror("robot.state").Replaced != 0 {
			t.Errorf("the mirror was replaced under its readers: %v", ch.Check())
		}
	})
}

// A mirror does not exceed the size limit because of one frame.
func TestMirrorHasOriginSizeWithoutRoomForMore(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		state := robot.channel("state", 4000, 3000)
		state.put(1, 300_000) // 4000 frames of this size are 1.2 GB
		robot.run(Config{})
		pc := w.host("pc", wire10ms).run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "state"}}}, robot)
		pc.follows("robot.state", 1, 2*time.Second)
	})
}

func TestMirrorIsRefusedIfAllFramesAreRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		state := robot.channel("state", 10, 3000)
		robot.run(Config{})
		pc.channel("state", 2, 1000)
		request := rule.Mirror{Host: "robot", Channel: "state", As: "state", QoS: rule.QoS{Deadline: 100 * time.Millisecond}}
		pc.run(Config{Mirrors: []rule.Mirror{request}, Adopt: []string{"state"}}, robot)
		for i := range uint64(200) {
			state.put(i+1, 3898)
			time.Sleep(10 * time.Millisecond)
		}
		const want = "state: a frame of 3898 bytes does not fit, it holds 2000; achbridge did not make it, so make it again, larger: 2x3898"
		m := pc.mirror("state")
		if m.State != status.MirrorRefused || m.Cause != status.CauseFrameSize || m.Reason != want {
			t.Errorf("got state %s, cause %s, %q, want refused, frame_size, %q", m.State, m.Cause, m.Reason, want)
		}
		state.put(201, 64)
		pc.follows("state", 201, 2*time.Second)
		if m := pc.mirror("state"); m.State != status.MirrorLive || m.Reason != "" {
			t.Errorf("got state %s, %q after a frame that fits, want live", m.State, m.Reason)
		}
	})
}
