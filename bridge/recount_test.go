package bridge

import (
	"fmt"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// A frame may come to a mirror more than once: it is counted once, as what
// became of it last.

func TestFrameForANewFileIsCountedOnce(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("captured %v", known), func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				goal := robot.channel("data", 16, 64)
				if !known {
					goal.put(1, 64) // before its capture time could be known
				}
				robot.run(Config{})
				pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "data"}}}, robot)
				w.within(2*second, "mirror", func() bool { return pc.mirror(flowName).State == status.MirrorLive })
				if known {
					goal.put(1, 64)
				}
				pc.follows(flowName, 1, 2*second)
				time.Sleep(second)
				makeDirty(t, pc.dir, flowName)
				w.within(2*second, "a new file", func() bool { return pc.mirror(flowName).Replaced == 1 })
				pc.follows(flowName, 1, 2*second)
				time.Sleep(2 * second)
				got := pc.mirror(flowName).Accounts
				if want := (ledger.Accounts{Offered: 1, LateKept: 1}); got != want && (!known || got != ledger.Accounts{Offered: 1, Delivered: 1}) {
					t.Errorf("got %+v, want %+v", got, want)
				}
				if there := robot.node.Status().Exports[0].Accounts; there != got {
					t.Errorf("the origin has %+v, its mirror %+v", there, got)
				}
			})
		})
	}
}

// The mirror had the frame when it subscribed; its file is lost afterwards.
func TestMirrorThatLosesAFrameOfAFormerLinkGetsItAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		robot.channel("map", 4, 64).put(7, 64)
		pc.follows("robot.map", 7, time.Second)
		pc.stop()
		pc.run(pc.cfg, robot)
		w.within(2*second, "mirror", func() bool { return pc.mirror("robot.map").State == status.MirrorLive })
		makeDirty(t, pc.dir, "robot.map")
		w.within(2*second, "a new file", func() bool { return pc.mirror("robot.map").Replaced == 1 })
		pc.follows("robot.map", 7, 2*second)
		time.Sleep(2 * second)
		got, there := pc.mirror("robot.map").Accounts, robot.node.Status().Exports[0].Accounts
		if got != there || got.Settled() != 1 || got.Offered != 1 {
			t.Errorf("got %+v, and %+v at the origin, want one frame", got, there)
		}
	})
}

// lateFor is frame seq of a mirror whose clock knows the peer's, captured long ago.
func lateFor(seq uint64, owed bool) arrival {
	a := came(seq, frame(seq, 64))
	a.captured, a.owed, a.at = time.Second, owed, reading{now: time.Minute, known: true}
	return a
}

func TestLateFramesThatOvertakeEachOtherAreCountedOnce(t *testing.T) {
	m := testMirror(t, testDir(t), "m")
	m.put(lateFor(2, false))
	m.put(lateFor(1, false))
	m.put(lateFor(2, true))
	if want := (ledger.Accounts{LateKept: 1, Late: 1}); m.count != want {
		t.Errorf("got %+v, want %+v", m.count, want)
	}
}

func TestOlderFrameInTimeDoesNotPayTheDebt(t *testing.T) {
	m := testMirror(t, testDir(t), "m")
	m.put(lateFor(2, false))
	m.put(came(1, frame(1, 64)))
	if _, owed, err := m.look(); !owed || err != nil {
		t.Errorf("got owed %v, %v; frame 2 came late and nothing replaced it: want it owed", owed, err)
	}
	m.put(lateFor(2, true))
	if want := (ledger.Accounts{Delivered: 1, LateKept: 1}); m.count != want {
		t.Errorf("got %+v, want %+v", m.count, want)
	}
}

func TestStrayFrameThatComesTwiceIsCountedOnce(t *testing.T) {
	m := testMirror(t, testDir(t), "m")
	stray := came(1, frame(1, 64))
	stray.epoch = 9
	m.put(stray)
	m.put(stray)
	if want := (ledger.Accounts{Refused: 1, Duplicate: 1}); m.count != want {
		t.Errorf("got %+v, want %+v", m.count, want)
	}
}

func TestFrameThatWaitsForTheLockWhenTheLinkEndsIsCountedOnce(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	takeLock(t, dir, "m")
	m.put(came(1, frame(1, 64)))
	if have, _ := m.expect(1, rule.QoS{}); have != 0 {
		t.Errorf("the mirror says that it has frame %d, want none", have)
	}
	m.put(came(1, frame(1, 64)))
	freeLock(t, dir, "m")
	eventually(t, "the frame that waited", time.Second, func() bool { return newestSeq(t, dir, "m") == 1 })
	if got := m.since(); got != (ledger.Accounts{Delivered: 1}) {
		t.Errorf("got %+v of the new subscription, want one frame delivered", got)
	}
}

// The origin has not heard yet that the frame came late when it comes again.
func TestDebtThatIsPaidBeforeTheOriginHearsOfItIsCountedOnce(t *testing.T) {
	m := testMirror(t, testDir(t), "m")
	m.put(lateFor(1, false))
	m.hear(ledger.Accounts{Offered: 1, Delivered: 1}, "")
	m.put(lateFor(1, true))
	got := m.status(0, reading{}, "").Accounts
	if got.Settled()+got.InFlight != got.Offered || got.Late != 0 || got.LateKept != 1 {
		t.Errorf("got %+v, want one frame kept late and none late", got)
	}
}
