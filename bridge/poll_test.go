package bridge

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/localach"
	"achbridge/testnet"
)

// loopSource is a pollSource that checks all channels in one loop, as the Watcher does.
type loopSource struct {
	pollSource
	period  time.Duration
	mu      sync.Mutex
	watched []*watched
}

type watched struct {
	ch     *localach.Channel
	last   uint64
	notify func(uint64)
}

func (s *loopSource) NewData(ch *localach.Channel, f func(uint64)) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &watched{ch, ch.LastSeq(), f}
	s.watched = append(s.watched, w)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watched = slices.DeleteFunc(s.watched, func(o *watched) bool { return o == w })
	}
}

func (s *loopSource) run(ctx context.Context) {
	for ; ctx.Err() == nil; pause(ctx, time.Until(time.Now().Truncate(s.period).Add(s.period))) {
		var moved []*watched
		s.mu.Lock()
		for _, w := range s.watched {
			if seq := w.ch.LastSeq(); seq != w.last {
				w.last = seq
				moved = append(moved, w)
			}
		}
		s.mu.Unlock()
		for _, w := range moved {
			w.notify(w.last)
		}
	}
}

// stalledConn blocks writes to a host until a given time.
type stalledConn struct {
	net.PacketConn
	to    netip.Addr
	until *atomic.Int64
}

func (c stalledConn) WriteTo(b []byte, to net.Addr) (int, error) {
	if at, err := netip.ParseAddrPort(to.String()); err == nil && at.Addr().Unmap() == c.to {
		time.Sleep(time.Until(time.Unix(0, c.until.Load())))
	}
	return c.PacketConn.WriteTo(b, to)
}

// delays puts a frame into both channels every 2 ms. It returns the total delay of the second
// channel's frames to the mirror.
func (h *host) delays(mirror string, first, second *channel) (sum time.Duration) {
	h.w.t.Helper()
	const period = 2 * time.Millisecond
	next := time.Now().Truncate(period).Add(period + 30*time.Microsecond) // never at the same moment as a check
	for range time.Second / period {
		time.Sleep(time.Until(next))
		next = next.Add(period)
		first.put(first.ch.LastSeq()+1, 64)
		time.Sleep(500 * time.Microsecond)
		number, begin := second.ch.LastSeq()+1, time.Now()
		second.put(number, 64)
		for got := uint64(0); got < number; got, _ = h.newest(mirror) {
			time.Sleep(50 * time.Microsecond)
		}
		sum += time.Since(begin)
	}
	return sum
}

func TestBlockedLinkDoesNotDelayOtherLinks(t *testing.T) {
	inWorld(t, func(w *world) {
		lan := testnet.Params{Delay: 100 * time.Microsecond}
		robot, other, pc := w.host("robot", lan), w.host("other", lan), w.host("pc", lan)
		source := &loopSource{pollSource: pollSource{robot.puts}, period: 250 * time.Microsecond}
		var until atomic.Int64
		robot.source = source
		robot.socket = func(c net.PacketConn) net.PacketConn { return stalledConn{c, testnet.HostAddr4(other.number), &until} }
		imu, joints := robot.channel("imu", 16, 64), robot.channel("joints", 16, 64)
		robot.run(Config{})
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu"}}}, robot)
		other.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "joints"}}}, robot)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go source.run(ctx)
		imu.put(1, 64)
		joints.put(1, 64)
		pc.follows("robot.imu", 1, 5*time.Second)
		other.follows("robot.joints", 1, 5*time.Second)

		free := pc.delays("robot.imu", joints, imu)
		until.Store(time.Now().Add(time.Second).UnixNano())
		stalled := pc.delays("robot.imu", joints, imu)
		if stalled > free {
			t.Errorf("while the other link took nothing: got %v in all, want %v as before", stalled, free)
		}
		if number, _ := other.newest("robot.joints"); number > 600 {
			t.Errorf("the other link carried frame %d: the test shows nothing", number)
		}
		other.follows("robot.joints", joints.ch.LastSeq(), 5*time.Second)
	})
}

// While a link has room and its channels are checked in time, every frame is sent.
func TestNoFrameIsSupersededWhileLinkHasRoom(t *testing.T) {
	type load struct {
		channels, size int
		period         time.Duration
	}
	imu, joints, scans := load{1, 64, time.Millisecond}, load{1, 64, 5 * time.Millisecond}, load{9, 3000, 5 * time.Millisecond}
	for name, loads := range map[string][]load{
		"imu": {imu}, "joints": {joints}, "nine scans": {scans}, "all": {imu, joints, scans},
		"beside a camera": {imu, joints, {1, 300_000, 100 * time.Millisecond}},
	} {
		for _, over := range overs {
			t.Run(name+" over "+over, func(t *testing.T) {
				inWorld(t, func(w *world) {
					lan := testnet.Params{Delay: 50 * time.Microsecond, Rate: 1_000_000_000}
					robot, pc := w.host("robot", lan), w.host("pc", lan)
					robot.over, pc.over = over, over
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					for i, l := range loads {
						for j := range l.channels {
							c := robot.channel(fmt.Sprintf("c%d-%d", i, j), 16, l.size)
							go func() {
								pause(ctx, time.Duration(i*37+j*211)*time.Microsecond) // the channels are put at different times
								for number := uint64(1); ctx.Err() == nil; number++ {
									c.put(number, l.size)
									pause(ctx, l.period)
								}
							}()
						}
					}
					robot.run(Config{})
					pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}, robot)
					time.Sleep(3 * time.Second) // time for the pacer to measure the link
					before := robot.node.Status().Exports
					time.Sleep(3 * time.Second)
					for i, e := range robot.node.Status().Exports {
						offered := e.Offered - before[i].Offered
						if got := e.Superseded - before[i].Superseded; got != 0 || offered == 0 {
							t.Errorf("%s: got %d of %d frames superseded, want 0", e.Channel, got, offered)
						}
					}
				})
			})
		}
	}
}

// Frames are superseded because of the link or because of the host; the status shows which.
func TestFramesSupersededDespiteRoomAreCounted(t *testing.T) {
	for _, c := range []struct {
		name string
		link testnet.Params
		look time.Duration
		busy bool // the host is the cause, not the link
	}{
		{"late looks", testnet.Params{Delay: milli}, 5 * milli, true},
		{"thin link", testnet.Params{Delay: milli, Rate: 100_000, Queue: 64 << 10}, 250 * time.Microsecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", c.link), w.host("pc", c.link)
				source := &loopSource{pollSource: pollSource{robot.puts}, period: c.look}
				robot.source = source
				imu := robot.channel("imu", 16, 200)
				robot.run(Config{})
				pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu"}}}, robot)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				go source.run(ctx)
				for range 5000 {
					imu.put(imu.ch.LastSeq()+1, 200)
					time.Sleep(milli)
				}
				e := robot.node.Status().Exports[0]
				if e.Superseded < 1000 || c.busy && e.WithRoom < e.Superseded-e.Superseded/100 || !c.busy && e.WithRoom > e.Superseded/100 {
					t.Errorf("got %d frames superseded and %d of them with room, want it to be the host: %v", e.Superseded, e.WithRoom, c.busy)
				}
			})
		})
	}
}
