package bridge

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

func TestMirrorsTakeAtMostHalfOfTheFreeMemory(t *testing.T) {
	free := int64(1000)
	s := &space{free: func() (int64, error) { return free, nil }}
	take := func(size int64) error {
		err := s.take(size, "")
		if err == nil {
			free -= size
		}
		return err
	}
	if err := take(300); err != nil {
		t.Errorf("300 of 1000: got %v, want room", err)
	}
	if err := take(300); err == nil {
		t.Error("600 of 1000: got room, want none")
	}
	if err := take(200); err != nil {
		t.Errorf("500 of 1000: got %v, want room", err)
	}
	s.add(-300, "")
	free += 300
	if err := take(300); err != nil {
		t.Errorf("300 given back: got %v, want room", err)
	}
}

func TestMirrorForWhichThereIsNoRoomIsRefusedByName(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.put(came(1, frame(1, 64)))
	m.Space.free = func() (int64, error) { return 20_000, nil }
	m.put(came(2, frame(2, 5000)))
	if s := m.status(0, reading{}, ""); s.Seq != 1 || !strings.Contains(s.Reason, "m: no room in") {
		t.Errorf("got frame %d, reason %q; want the small file kept and a reason that names it", s.Seq, s.Reason)
	}
}

func TestPeerCannotMakeUsReserveMemoryWithoutEnd(t *testing.T) {
	huge := wire.Channel{Name: "huge", FrameCount: 16, FrameSize: 16 << 20}
	n := &Node{log: slog.New(slog.DiscardHandler)}
	l := &link{n: n, host: "robot", subs: map[uint32]*binding{}}
	for id := range uint32(maxAssembly / wire.MaxFrame) {
		l.subs[id] = &binding{origin: huge}
	}
	m := &binding{mirror: bareMirror("", "robot.huge", nil)}
	if err := n.openMirror(m, l, huge, rule.QoS{}); err == nil || !strings.Contains(err.Error(), "robot/huge") {
		t.Errorf("got %v, want a refusal that names the channel", err)
	}
}

// A giant that came first keeps out neither what is small nor what is named.
func TestGiantsLeaveMemoryForLargeFramesOfOthers(t *testing.T) {
	n := &Node{log: slog.New(slog.DiscardHandler), asked: []rule.Mirror{{Host: "robot", Channel: "*"}, {Host: "robot", Channel: "map"}}}
	l := &link{n: n, host: "robot", subs: map[uint32]*binding{}}
	of := func(name string, size int) wire.Channel {
		return wire.Channel{Name: name, FrameCount: 1, FrameSize: size, Epoch: 1}
	}
	dir := testDir(t)
	for i, step := range []struct {
		c    wire.Channel
		fits bool
	}{
		{of("giant0", 64<<20), true}, {of("giant1", 64<<20), true}, {of("giant2", 64<<20), true}, {of("giant3", 2<<20), false},
		{of("imu", 1<<20), true}, {of("map", 60<<20), true}, {of("camera", 1<<20), true}, {of("joints", 1<<20), true},
		{of("state", 1<<20), true}, {of("arm", 512<<10), false},
	} {
		m := &binding{mirror: bareMirror(dir, "robot."+step.c.Name, func(f func()) { f() })}
		m.Space.free = func() (int64, error) { return 8 << 30, nil }
		err := n.openMirror(m, l, step.c, rule.QoS{})
		if (err == nil) != step.fits || err != nil && (causeOf(err) != status.CauseLimit || !strings.Contains(err.Error(), "robot/"+step.c.Name)) {
			t.Errorf("%s: got %v, cause %q, want it taken: %v", step.c.Name, err, causeOf(err), step.fits)
		}
		if step.fits {
			m.origin = step.c
			l.subs[uint32(i)] = m
		}
	}
}

func TestPeerHasOneSubscriptionToAChannel(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		pc.run(Config{}, robot)
		w.within(time.Second, "the channel", func() bool { return len(pc.node.Channels()) == 1 })
		pc.node.call(func() {
			for _, l := range pc.node.links {
				for i := range uint32(200) {
					l.send(wire.Subscribe{ID: i + 1, Channel: "imu", Epoch: l.catalog["imu"].Epoch})
				}
			}
		})
		time.Sleep(time.Second)
		if n := len(robot.node.Status().Exports); n != 1 {
			t.Errorf("the peer has %d subscriptions to one channel, want 1", n)
		}
	})
}
