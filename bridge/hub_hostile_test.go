package bridge

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/trust"
	"achbridge/testnet"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// forgeries returns the number of events about frames of the hub that were not put.
func (h *host) forgeries() (count int) {
	list, err := h.node.Events(context.Background(), 0)
	if err != nil {
		h.w.t.Fatal(err)
	}
	for _, e := range list.Events {
		if e.Kind == status.EventForged {
			count += max(e.Count, 1)
		}
	}
	return count
}

// Frames that the hub delays do not count for last-value delivery.
func TestLastValueIgnoresFramesDelayedByHub(t *testing.T) {
	inWorld(t, func(w *world) {
		hub, robot, pc := w.hubPair(rule.QoS{Late: rule.LateDrop})
		imu := robot.channel("imu", 16, 64)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, 3*time.Second)
		time.Sleep(time.Second)
		hub.Deceive(testnet.Deceit{Frames: testnet.Delays, By: time.Second}) // frames in transit from now on are late
		imu.puts(2, 100, 64, 20*time.Millisecond)
		for range 1500 {
			time.Sleep(time.Millisecond)
			if number, age := pc.newest("robot.imu"); number != 1 && number != 101 {
				t.Fatalf("frame %d was put, %v old", number, age)
			}
		}
		time.Sleep(time.Second)
		if m := pc.mirror("robot.imu"); m.LateKept > 2 || m.Late == 0 || m.Seq != 101 {
			t.Errorf("got frame %d and %+v, want late frames dropped but for the two debts", m.Seq, m.FrameCounters)
		}
	})
}

// Last-value delivery applies to the origin's newest frame. Once there is a newer frame it no
// longer applies, even if the hub delivers the older frame late.
func TestSupersededLastValueIsNotPutLate(t *testing.T) {
	inWorld(t, func(w *world) {
		hub := newWorldHub(w, hubMaxFrame)
		robot, pc := w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{})
		robot.atHub(hub, Config{})
		imu := robot.channel("imu", 16, 64)
		imu.put(7, 64)
		time.Sleep(time.Second)
		var lastValue []byte
		hub.lies(func(_, _ string, b []byte) [][]byte {
			lastValue = slices.Clone(b)
			return nil
		})
		pc.atHub(hub, mirrorAll(rule.QoS{Late: rule.LateDrop}), "robot")
		time.Sleep(3 * time.Second)
		hub.lies(func(_, _ string, b []byte) [][]byte { return nil })
		imu.put(8, 64)
		time.Sleep(100 * time.Millisecond)
		hub.lies(func(_, _ string, b []byte) [][]byte { return [][]byte{lastValue} })
		imu.put(9, 64)
		time.Sleep(100 * time.Millisecond)
		hub.lies(nil)
		if number, age := pc.newest("robot.imu"); number != 0 || lastValue == nil {
			t.Errorf("frame %d was put, %v old", number, age)
		}
		imu.put(10, 64)
		pc.follows("robot.imu", 10, time.Second)
	})
}

func TestHubPeerWithWrongKeyIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		hub := newWorldHub(w, hubMaxFrame)
		robot, pc := w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{})
		pc.key = trust.NewKey()
		robot.atHub(hub, Config{})
		pc.atHub(hub, mirrorAll(rule.QoS{}), "robot")
		robot.channel("imu", 16, 64).streams(64)
		time.Sleep(4 * time.Second)
		if number, _ := pc.newest("robot.imu"); number != 0 || pc.links() != "" {
			t.Errorf("got frame %d and links %q, want nothing", number, pc.links())
		}
		found := false
		for _, p := range pc.node.Status().Peers {
			found = found || p.Host == "robot" && p.Cause == status.CauseKey
		}
		if !found {
			t.Errorf("got peers %+v, want robot with the wrong key", pc.node.Status().Peers)
		}
	})
}

func TestHubCommandsGoToOneReceiver(t *testing.T) {
	inWorld(t, func(w *world) {
		hub := newWorldHub(w, hubMaxFrame)
		robot, pc, spy := w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{}), w.host("spy", testnet.Params{})
		pc.atHub(hub, Config{})
		command := rule.QoS{Class: rule.Command, Budget: 200 * time.Millisecond}
		robot.atHub(hub, Config{Mirrors: []rule.Mirror{{Host: "pc", Channel: "goal", QoS: command}}}, "pc")
		goal := pc.channel("goal", 16, 64)
		goal.streams(64)
		robot.freshWithin(4*time.Second, "pc.goal")
		spy.atHub(hub, Config{Mirrors: []rule.Mirror{{Host: "pc", Channel: "goal"}}}, "pc")
		w.within(4*time.Second, "the refusal", func() bool { return spy.mirror("pc.goal").State == status.MirrorRefused })
		if m := spy.mirror("pc.goal"); !contains(m.Reason, "commands go to one receiver") {
			t.Errorf("got %+v, want that commands go to one receiver", m)
		}
		robot.freshWithin(100*time.Millisecond, "pc.goal")
		robot.stop()
		spy.freshWithin(5*time.Second, "pc.goal") // the rules let it read now
	})
}

// A command that waits past its budget is not put, whether it waits at the hub or at its origin.
func TestLateHubCommandsAreNotPut(t *testing.T) {
	inWorld(t, func(w *world) {
		hub := newWorldHub(w, hubMaxFrame)
		robot, pc := w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{})
		pc.atHub(hub, Config{})
		command := rule.QoS{Class: rule.Command, Budget: 200 * time.Millisecond}
		robot.atHub(hub, Config{Mirrors: []rule.Mirror{{Host: "pc", Channel: "goal", QoS: command}}}, "pc")
		goal := pc.channel("goal", 16, 64)
		number := uint64(0)
		next := func() { number++; goal.put(number, 64) }
		next()
		time.Sleep(4 * time.Second) // linked; the first one was too old by then
		for cut := 500 * time.Millisecond; cut <= 8*time.Second; cut *= 2 {
			next()
			robot.follows("pc.goal", number, 200*time.Millisecond)
			hub.Cut("robot")
			next()
			time.Sleep(cut)
			hub.Restore("robot")
			for range 300 {
				if got, age := robot.newest("pc.goal"); got == number {
					t.Fatalf("command %d was put %v old, after a cut of %v", got, age, cut)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		time.Sleep(3 * time.Second)
		wantClosed(t, robot, pc)
	})
}
