package bridge

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/localach/damage"
	"achbridge/wire"
)

func TestDirtyMirrorGetsTheNewestFrameAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		robot.channel("map", 4, 64).put(7, 64)
		pc.follows("robot.map", 7, time.Second)
		damage.MakeDirty(t, pc.dir, "robot.map")
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
		damage.MakeDirty(t, pc.dir, "robot.map")
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
	var m *mirror.Mirror
	in := &mirror.Feed{Epoch: 1}
	node.call(func() {
		m = mirror.New(mirror.Config{Name: "m", Host: "robot", Channel: "m", Dir: dir, Space: node.space, Log: node.log, Events: &node.events, Spawn: node.work.Go, Clock: node.clock}, rule.QoS{}, nil)
		node.mirrors["m"] = &binding{Mirror: m}
		if err := m.Open(wire.Channel{Name: "m", FrameCount: 16, FrameSize: 64, Epoch: 1}, id, "", rule.QoS{}); err != nil {
			t.Error(err)
		}
		have, _ := m.Subscribe(in, rule.QoS{})
		if _, err := m.Begin(1, 1, have); err != nil {
			t.Error(err)
		}
	})
	damage.TakeLock(t, dir, "m")
	m.Put(mirror.Arrival{From: in, Epoch: 1, Seq: 1, Data: frame(1, 64)})

	cancel()
	left := make(chan struct{})
	go func() { run.Wait(); close(left) }()
	select {
	case <-left:
	case <-time.After(2 * time.Second):
		t.Error("Run has not returned 2 s after its context ended")
		damage.FreeLock(t, dir, "m")
		<-left
	}
}
