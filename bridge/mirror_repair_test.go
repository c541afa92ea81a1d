package bridge

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
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
	if _, owed, err := m.look(); err != nil || !owed {
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
		wantHealing(t, pc, "robot.map")
		pc.follows("robot.map", 8, 2*time.Second)
	})
}

// wantHealing wants it to be said of a damaged mirror that it is being healed, and not that people are to remove it.
func wantHealing(t *testing.T, h *host, name string) {
	t.Helper()
	list, err := h.node.Events(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Events {
		if e.Kind == status.EventUnusable && e.Channel == name {
			if !strings.Contains(e.Text, "is being healed") || strings.Contains(e.Text, "channel rm") {
				t.Errorf("got %q, want that it is being healed", e.Text)
			}
			return
		}
	}
	t.Errorf("nothing is said of %s", name)
}

// In real time: a lock is tried again by the clock.
func TestNodeLeavesWhileAMirrorsLockIsTaken(t *testing.T) {
	dir := testDir(t)
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	id := trust.NodeID{1}
	end, err := transport.Listen(conn, transport.Config{Key: trust.NewKey(), Node: id, Host: "pc"})
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
		m.Spawn = node.work.Go
		node.mirrors["m"] = &binding{mirror: m}
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

// Nothing of a log comes twice, also into a new file: who follows the mirror has read it
// in the old one.
func TestNewFileOfModeEveryGoesOnWhereTheOldOneEnded(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.expect(1, rule.QoS{Mode: rule.Every})
	for seq := range uint64(3) {
		m.putNext(came(seq+1, frame(seq+1, 64)))
	}
	makeDirty(t, dir, "m")
	if _, _, err := m.look(); err != nil || m.replaced != 1 {
		t.Fatalf("got %v, %d times replaced, want a new file", err, m.replaced)
	}
	if have, _ := m.expect(1, rule.QoS{Mode: rule.Every}); have != 3 {
		t.Errorf("after another link: asks behind frame %d, want 3", have)
	}
	ch, err := dir.Open("m")
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if have := ch.Tag().Seq; have != 3 {
		t.Errorf("after a restart: goes on behind frame %d, want 3", have)
	}
	again, err := bareAdopted(dir, "m", false) // which is in mode newest
	if err != nil {
		t.Fatal(err)
	}
	defer again.abandon()
	if again.tag.Seq != 0 {
		t.Errorf("in mode newest: asks behind frame %d, want 0, since the file is empty", again.tag.Seq)
	}
	again.put(came(2, frame(2, 64)))
	again.put(came(3, frame(3, 64)))
	if got := newestSeq(t, dir, "m"); got != 3 {
		t.Errorf("got frame %d in the mirror, want 3", got)
	}
}
