package bridge

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/transport"
	"achbridge/localach"
)

func TestChannelThatTookTheMirrorsNameIsNotReplaced(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.put(came(1, frame(1, 64)))
	if err := dir.Unlink("m"); err != nil {
		t.Fatal(err)
	}
	ch, err := dir.Create("m", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	w := ch.Writer()
	defer w.Close()
	if _, err := w.Put(frame(99, 64)); err != nil {
		t.Fatal(err)
	}
	m.put(came(2, frame(2, 5000)))
	makeDirty(t, dir, "m")
	m.look()
	poke(t, dir, "m", dirtyWord, []byte{0})
	if got := newestSeq(t, dir, "m"); got != 99 {
		t.Errorf("the channel that is not ours holds frame %d, want 99", got)
	}
}

func TestFrameThatOutgrewTheFileWhileItWaitedIsPut(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	takeLock(t, dir, "m")
	m.put(came(1, frame(1, 64)))
	m.put(came(2, frame(2, 5000)))
	eventually(t, "the large frame", time.Second, func() bool { return newestSeq(t, dir, "m") == 2 })
}

func TestReplacedMirrorNeverGoesBack(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.put(came(7, frame(7, 64)))
	makeDirty(t, dir, "m")
	if owed, err := m.look(); err != nil || !owed {
		t.Fatalf("got owed %v, %v; want the newest frame owed to the new file", owed, err)
	}
	m.put(came(6, frame(6, 64)))
	if got := newestSeq(t, dir, "m"); got != 0 {
		t.Errorf("the new file holds frame %d, want none before 7", got)
	}
	m.put(came(7, frame(7, 64)))
	if got := newestSeq(t, dir, "m"); got != 7 {
		t.Errorf("the new file holds frame %d, want 7", got)
	}
}

func TestDirtyMirrorGetsTheNewestFrameAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		robot.channel("map", 4, 64).put(7, 64)
		pc.follows("robot.map", 7, time.Second)
		makeDirty(t, pc.dir, "robot.map")
		w.within(2*time.Second, "a new file", func() bool { return pc.mirror("robot.map").Replaced == 1 })
		pc.follows("robot.map", 7, 2*time.Second)
	})
}

func TestMirrorFoundDirtyAtStartGetsTheNewestFrame(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		channel := robot.channel("map", 4, 64)
		channel.put(7, 64)
		pc.follows("robot.map", 7, time.Second)
		pc.stop()
		makeDirty(t, pc.dir, "robot.map")
		channel.put(8, 64)
		pc.run(pc.cfg, robot)
		w.within(3*time.Second, "a new file", func() bool { return pc.mirror("robot.map").Replaced == 1 })
		pc.follows("robot.map", 8, 2*time.Second)
	})
}

// In real time: a lock is tried again by the clock.
func TestNodeLeavesWhileAMirrorsLockIsTaken(t *testing.T) {
	dir := testDir(t)
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	id := transport.NodeID{1}
	end, err := transport.Listen(conn, transport.Config{Key: transport.NewKey(), Node: id, Host: "pc"})
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	node, err := New(Config{Host: "pc", Node: id, Dir: dir, Source: pollSource{dir}, Endpoint: end})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { node.Run(ctx) })
	m := testMirror(t, dir, "m")
	node.call(func() {
		m.spawn = node.work.Go
		node.mirrors["m"] = m
	})
	takeLock(t, dir, "m")
	m.put(came(1, frame(1, 64)))

	cancel()
	left := make(chan struct{})
	go func() { run.Wait(); close(left) }()
	select {
	case <-left:
	case <-time.After(2 * time.Second):
		t.Error("Run has not returned 2 s after its context ended")
		freeLock(t, dir, "m")
		<-left
	}
}
