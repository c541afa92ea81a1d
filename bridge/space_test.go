package bridge

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

func TestReassemblyMemoryOfPeerIsLimited(t *testing.T) {
	huge := wire.Channel{Name: "huge", FrameCount: 16, FrameSize: 16 << 20}
	n := &Node{cfg: Config{Log: slog.New(slog.DiscardHandler)}}
	l := &link{n: n, host: "robot", inbound: map[uint32]*inbound{}}
	for id := range uint32(maxReassembly / wire.MaxFrame) {
		l.inbound[id] = &inbound{m: &binding{origin: huge}}
	}
	m := &binding{Mirror: mirror.New(mirror.Config{Name: "robot.huge"}, rule.QoS{}, nil)}
	if err := n.openMirror(m, l, huge, rule.QoS{}); err == nil || !strings.Contains(err.Error(), "robot/huge") {
		t.Errorf("got %v, want a refusal that names the channel", err)
	}
}

// A giant channel that came first excludes neither small channels nor named ones.
func TestGiantChannelsLeaveReassemblyMemory(t *testing.T) {
	n := &Node{cfg: Config{Log: slog.New(slog.DiscardHandler)}, requests: mirrorRequests{added: []rule.Mirror{{Host: "robot", Channel: "*"}, {Host: "robot", Channel: "map"}}}}
	l := &link{n: n, host: "robot", inbound: map[uint32]*inbound{}}
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
		space := mirror.NewSpace(dir)
		space.Free = func(int64) (int64, error) { return 8 << 30, nil }
		m := &binding{Mirror: mirror.New(mirror.Config{Name: "robot." + step.c.Name, Dir: dir, Space: space}, rule.QoS{}, nil)}
		err := n.openMirror(m, l, step.c, rule.QoS{})
		if (err == nil) != step.fits || err != nil && (causeOf(err) != status.CauseLimit || !strings.Contains(err.Error(), "robot/"+step.c.Name)) {
			t.Errorf("%s: got %v, cause %q, want it taken: %v", step.c.Name, err, causeOf(err), step.fits)
		}
		if step.fits {
			m.origin = step.c
			l.inbound[uint32(i)] = &inbound{m: m}
		}
	}
}

func TestPeerHasOneSubscriptionPerChannel(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		pc.run(Config{}, robot)
		w.within(time.Second, "the channel", func() bool { return len(pc.node.Channels()) == 1 })
		pc.node.loop.call(func() {
			for _, l := range pc.node.links {
				for i := range uint32(200) {
					l.send(wire.Subscribe{ID: i + 1, Channel: "imu", Epoch: l.catalog.remote.channels["imu"].Epoch})
				}
			}
		})
		time.Sleep(time.Second)
		if n := len(robot.node.Status().Exports); n != 1 {
			t.Errorf("the peer has %d subscriptions to one channel, want 1", n)
		}
	})
}
