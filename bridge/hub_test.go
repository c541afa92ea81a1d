package bridge

import (
	"context"
	"math"
	"testing"
	"time"

	"achbridge/bridge/hubway"
	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/via"
	"achbridge/testnet"
	"achbridge/wire"
)

func mirrorAll(qos rule.QoS) Config {
	return Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", QoS: qos}}}
}

// puts puts count frames of size bytes, one every period, numbered from from.
func (c *channel) puts(from, count uint64, size int, period time.Duration) {
	for i := range count {
		c.put(from+i, size)
		time.Sleep(period)
	}
}

// overNow returns the transport of the host's only link, "" without a link.
func (h *host) overNow() via.Kind {
	for _, l := range h.node.Status().Links {
		return l.Transport
	}
	return ""
}

func TestMirrorFollowsThroughTheHub(t *testing.T) {
	inWorld(t, func(w *world) {
		_, robot, pc := w.hubPair(rule.QoS{})
		imu := robot.channel("imu", 16, 64)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, 3*time.Second)
		imu.puts(2, 1000, 64, 5*time.Millisecond)
		pc.follows("robot.imu", 1001, 100*time.Millisecond)
		time.Sleep(3 * time.Second)
		m := pc.mirror("robot.imu")
		if m.State != status.MirrorLive || m.Seq != 1001 || m.AgeMs == nil {
			t.Errorf("got mirror %+v, want it live at frame 1001 with an age", m)
		}
		if l := pc.node.Status().Links[0]; l.Transport != via.Hub || math.Abs(l.RTTms-40) > 1 || l.ClockUncertaintyMs > 21 {
			t.Errorf("got link %+v, want it over the hub with 40 ms there and back", l)
		}
		wantClosed(t, pc, robot)
	})
}

func TestHubMirrorOfIdleChannelGetsNewestFrame(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, qos := range []rule.QoS{{}, {Late: rule.LateDrop}} {
			hub := newWorldHub(w, hubMaxFrame)
			robot, pc, late := w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{}), w.host("late", testnet.Params{})
			robot.atHub(hub, Config{})
			imu := robot.channel("imu", 16, 64)
			imu.put(7, 64)
			time.Sleep(time.Second)
			pc.atHub(hub, mirrorAll(qos), "robot")
			pc.follows("robot.imu", 7, 3*time.Second)
			late.atHub(hub, mirrorAll(qos), "robot")
			late.follows("robot.imu", 7, 3*time.Second)
			time.Sleep(3 * time.Second)
			wantClosed(t, pc, robot)
			wantClosed(t, late, robot)
			for _, h := range []*host{robot, pc, late} {
				h.stop()
			}
		}
	})
}

func TestLinkMovesToHubAndBack(t *testing.T) {
	inWorld(t, func(w *world) {
		hub := newWorldHub(w, hubMaxFrame)
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.atHub(hub, Config{})
		pc.atHub(hub, mirrorAll(rule.QoS{}))
		pc.knows([]string{"robot"}, robot)
		robot.channel("imu", 16, 64).streams(64)
		pc.freshWithin(time.Second, "robot.imu")
		time.Sleep(5 * time.Second)
		if over := pc.overNow(); over != via.QUIC || hub.puts("robot") != 0 {
			t.Fatalf("got a link over %s and %d frames at the hub, want none beside the direct link", over, hub.puts("robot"))
		}
		w.change("robot", "cut")
		took := pc.w.within(4*time.Second, "a link over the hub", func() bool { return pc.overNow() == via.Hub })
		if took < time.Second {
			t.Errorf("the hub took over after %v, want 1 s at least", took)
		}
		pc.freshWithin(500*time.Millisecond, "robot.imu")
		time.Sleep(5 * time.Second)
		w.change("robot", "up")
		pc.w.within(6*time.Second, "a direct link", func() bool { return pc.overNow() == via.QUIC })
		pc.freshWithin(time.Second, "robot.imu")
		time.Sleep(time.Second)
		puts := hub.puts("robot")
		time.Sleep(2 * time.Second)
		if more := hub.puts("robot"); more != puts {
			t.Errorf("%d frames were put at the hub beside a direct link", more-puts)
		}
	})
}

func TestHubSessionIsRefusedDuringDirectLink(t *testing.T) {
	inWorld(t, func(w *world) {
		hub := newWorldHub(w, hubMaxFrame)
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.atHub(hub, Config{})
		pc.atHub(hub, mirrorAll(rule.QoS{}))
		pc.knows(nil, robot)
		pc.w.within(2*time.Second, "a link", func() bool { return pc.overNow() == via.QUIC })
		conn, err := hub.as("pc", 0).Dial(context.Background(), "robot")
		if err != nil {
			t.Fatal(err)
		}
		s, err := pc.node.cfg.Endpoint.DialOver(context.Background(), conn)
		if err != nil {
			t.Fatal(err)
		}
		<-s.Done()
		if got := s.Err().Error(); got != "closed by peer: "+string(errDirect) {
			t.Errorf("got %q, want that there is a direct link", got)
		}
		if over := robot.overNow(); over != via.QUIC {
			t.Errorf("got a link over %s, want quic", over)
		}
	})
}

func TestMirrorRecoversAfterHubRestarts(t *testing.T) {
	inWorld(t, func(w *world) {
		hub, robot, pc := w.hubPair(rule.QoS{})
		robot.channel("imu", 16, 64).streams(64)
		pc.freshWithin(3*time.Second, "robot.imu")
		for range 3 {
			hub.Forget()
			hub.Cut("robot")
			hub.Cut("pc")
			time.Sleep(700 * time.Millisecond)
			hub.Restore("robot")
			hub.Restore("pc")
			pc.freshWithin(2*time.Second, "robot.imu")
		}
	})
}

// A frame that the hub has not stored is put again after a delay. A newer frame does not wait for
// it.
func TestNewerFrameDoesNotWaitForRefusedFrame(t *testing.T) {
	inWorld(t, func(w *world) {
		hub, robot, pc := w.hubPair(rule.QoS{})
		imu := robot.channel("imu", 16, 64)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, 3*time.Second)
		time.Sleep(2 * time.Second)
		puts := hub.puts("robot")
		hub.tap("robot", func(t *hubTap) { t.refused = 2 })
		imu.put(2, 64)
		time.Sleep(2*hubDelay + 5*time.Millisecond)
		imu.put(3, 64)
		pc.follows("robot.imu", 3, 2*hubDelay+5*time.Millisecond)
		time.Sleep(2 * hubway.RetryAfter) // the hub refuses frame 3 at the same moment as the mirror gets it
		if got := hub.puts("robot") - puts; got != 3 {
			t.Errorf("got %d puts, want frames 2 and 3, and 3 again after the hub's refusal", got)
		}
	})
}

// A frame that is too large for the hub counts as refused for readers that join later, too. It
// does not count as in flight.
func TestLaterHubReaderCountsRefusedFrame(t *testing.T) {
	inWorld(t, func(w *world) {
		hub := newWorldHub(w, 1000)
		robot, near, pc := w.host("robot", testnet.Params{}), w.host("near", testnet.Params{}), w.host("pc", testnet.Params{})
		robot.atHub(hub, Config{})
		near.atHub(hub, mirrorAll(rule.QoS{}), "robot")
		imu := robot.channel("imu", 16, 2000)
		imu.put(1, 64)
		near.follows("robot.imu", 1, 3*time.Second)
		imu.put(2, 2000)
		time.Sleep(time.Second)
		if e := robot.node.Status().Exports; len(e) != 1 || e[0].Cause != status.CauseLimit || !contains(e[0].Reason, "max_payload") {
			t.Errorf("got %+v, want that max_payload is too small for frame 2", e)
		}
		pc.atHub(hub, mirrorAll(rule.QoS{}), "robot")
		export := func() ledger.FrameCounters {
			for _, e := range robot.node.Status().Exports {
				if e.Peer == "pc" {
					return e.FrameCounters
				}
			}
			return ledger.FrameCounters{}
		}
		w.within(4*time.Second, "the subscription", func() bool { return export().Offered > 0 })
		time.Sleep(time.Second)
		if a := export(); a.Refused != 1 || a.InFlight != 0 {
			t.Errorf("got %+v, want one refused and none in flight", a)
		}
		imu.put(3, 64)
		pc.follows("robot.imu", 3, time.Second)
		time.Sleep(3 * time.Second)
		if a := export(); a.Refused != 1 || a.Delivered != 1 || a.Superseded > 1 {
			t.Errorf("got %+v, want one refused and one delivered", a)
		}
		wantClosed(t, pc, robot)
	})
}

func TestModeEveryIsRefusedThroughTheHub(t *testing.T) {
	inWorld(t, func(w *world) {
		_, robot, pc := w.hubPair(rule.QoS{Mode: rule.Every})
		robot.channel("log", 16, 64).put(1, 64)
		w.within(4*time.Second, "the refusal", func() bool { return pc.mirror("robot.log").State == status.MirrorRefused })
		if m := pc.mirror("robot.log"); m.Cause != status.CauseRule || !contains(m.Reason, "mode every needs a direct link") {
			t.Errorf("got %+v, want that mode every needs a direct link", m)
		}
		if list := robot.node.Status().Exports; len(list) != 0 {
			t.Errorf("%+v: robot was asked for what a hub cannot do", list)
		}
		if err := pc.node.Mirror(rule.Mirror{Host: "robot", Channel: "*"}); err != nil {
			t.Fatal(err)
		}
		pc.follows("robot.log", 1, 4*time.Second)
		if err := pc.node.Mirror(rule.Mirror{Host: "robot", Channel: "*", QoS: rule.QoS{Mode: rule.Every}}); err != nil {
			t.Fatal(err)
		}
		w.within(4*time.Second, "the refusal of a mirror that was fed", func() bool { return pc.mirror("robot.log").State == status.MirrorRefused })
	})
}

func TestPushesGoThroughTheHub(t *testing.T) {
	inWorld(t, func(w *world) {
		hub := newWorldHub(w, hubMaxFrame)
		robot, pc := w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{})
		robot.atHub(hub, Config{Accept: rule.GrantTo("goal")})
		goal := pc.channel("goal", 16, 64)
		command := rule.QoS{Class: rule.Command, Budget: 200 * time.Millisecond}
		pc.atHub(hub, Config{Pushes: rule.Pushes{{Host: "robot", Channel: "goal", QoS: command}}}, "robot")
		goal.streams(64)
		w.within(4*time.Second, "commands in goal", func() bool { n, age := robot.newest("goal"); return n > 0 && age < 200*time.Millisecond })
		if p := pc.node.Status().Pushes; len(p) != 1 || p[0].State != status.PushAccepted {
			t.Errorf("got pushes %+v, want one that is accepted", p)
		}
	})
}

func TestPingThroughTheHub(t *testing.T) {
	inWorld(t, func(w *world) {
		_, robot, pc := w.hubPair(rule.QoS{})
		robot.channel("imu", 16, 64)
		w.within(4*time.Second, "a link", func() bool { return pc.overNow() == via.Hub })
		pong, err := pc.node.Ping(context.Background(), "robot")
		if err != nil || pong.Lost || pong.RTT < 4*hubDelay || pong.RTT > 4*hubDelay+5*time.Millisecond {
			t.Errorf("got %+v, %v, want a round trip of %v", pong, err, 4*hubDelay)
		}
		if _, err := pc.node.LoadTest(context.Background(), "robot", Down); err == nil || err.Error() != noLoadThere {
			t.Errorf("got %v, want that there are no load tests through a hub", err)
		}
	})
}

// A host from which no mirror is requested is not linked. A request links it at once.
func TestHubHostsAreLinkedOnDemand(t *testing.T) {
	inWorld(t, func(w *world) {
		hub := newWorldHub(w, hubMaxFrame)
		robot, pc := w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{})
		robot.atHub(hub, Config{}, "pc")
		pc.atHub(hub, Config{}, "robot")
		robot.channel("imu", 16, 64).put(1, 64)
		time.Sleep(10 * time.Second)
		if links := pc.links(); links != "" {
			t.Fatalf("got links with %s, want none", links)
		}
		if err := pc.node.Mirror(rule.Mirror{Host: "robot", Channel: "imu"}); err != nil {
			t.Fatal(err)
		}
		if took := pc.follows("robot.imu", 1, time.Second); took > 700*time.Millisecond {
			t.Errorf("the first frame took %v", took)
		}
	})
}

// An answer to a stamp with impossible times does not change the measured round trip.
func TestImpossibleStampsAreIgnored(t *testing.T) {
	inWorld(t, func(w *world) {
		_, robot, pc := w.hubPair(rule.QoS{})
		robot.channel("imu", 16, 64)
		w.within(4*time.Second, "a link", func() bool { return pc.overNow() == via.Hub })
		time.Sleep(2 * time.Second)
		var l *link
		pc.node.loop.call(func() {
			for _, l = range pc.node.links {
			}
		})
		round := func() (rtt time.Duration) {
			pc.node.loop.call(func() { rtt = l.path.stamps.round })
			return rtt
		}
		now, before := pc.node.now(), round()
		for what, m := range map[string]wire.Stamp{
			"longer there than on the way": {T1: uint64(now - time.Second), T2: 1, T3: uint64(time.Hour)},
			"asked in the future":          {T1: uint64(now + time.Hour), T2: 1, T3: 1},
			"answered before it came":      {T1: uint64(now - time.Second), T2: uint64(time.Hour), T3: 1},
		} {
			l.stamped(m, now)
			if got := round(); got != before {
				t.Errorf("%s: the round trip is %v, want %v as before", what, got, before)
				before = got
			}
		}
	})
}

// Answers over a distant hub take long, but are not overdue.
func TestHubFeedbackTimeoutGrowsWithRoundTrip(t *testing.T) {
	inWorld(t, func(w *world) {
		_, robot, pc := w.hubPair(rule.QoS{})
		robot.channel("imu", 16, 64)
		w.within(4*time.Second, "a link", func() bool { return pc.overNow() == via.Hub })
		pc.node.loop.call(func() {
			for _, real := range pc.node.links {
				for round, want := range map[time.Duration]time.Duration{
					40 * time.Millisecond:  hubSilence,
					700 * time.Millisecond: hubRounds * 700 * time.Millisecond,
				} {
					l := &link{s: real.s, frames: real.frames, path: pathState{stamps: hubStamps{round: round}}}
					if got := l.patience(); got != want {
						t.Errorf("patience with a round trip of %v = %v, want %v", round, got, want)
					}
				}
			}
		})
	})
}
