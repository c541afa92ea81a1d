package bridge

import (
	"bytes"
	"strings"
	"testing"

	"achbridge/bridge/layout"
	"achbridge/bridge/layouts"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// passes runs a base that mirrors and relays all channels of robot, and a PC that uses the base.
func (w *world) passes(robot *host) (base, pc *host) {
	all := []string{"*"}
	base, pc = w.host("base", wire10ms), w.host("pc", wire10ms)
	base.run(Config{Mirrors: []rule.Mirror{{Host: robot.name, Channel: "*"}}, Relay: all}, robot)
	pc.run(Config{Mirrors: []rule.Mirror{{Host: "base", Channel: "*"}}}, base)
	return base, pc
}

func TestHostBehindRelayGetsLayoutOfOrigin(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		imu := robot.channel("imu", 64, 64)
		robot.channel("log", 4, 64)
		first, later := encodedLayout(t, "imu", 64), encodedLayout(t, "imu", 32)
		robot.run(Config{Layouts: layouts.Rules{{Channels: "imu", Encoded: first}}})
		base, pc := w.passes(robot)
		imu.put(1, 64)
		pc.follows("base.robot.imu", 1, 2*second)

		base.node.loop.call(func() {
			if n := base.node.layouts.Len(); n != 0 {
				t.Errorf("got %d unrequested layouts at the relay, want none", n)
			}
		})
		if got := pc.says("base.robot.imu"); !bytes.Equal(got.Encoded, first) || got.Host != "base" || got.Channel != "robot.imu" {
			t.Errorf("got %+v, want %x", got, first)
		}
		if got := pc.says("base.robot.log"); got.Encoded != nil || got.Why != "" {
			t.Errorf("got %+v of a channel without a layout, want nothing", got)
		}
		imu.put(2, 32)
		pc.follows("base.robot.imu", 2, second)
		if got := pc.mismatch("base.robot.imu"); got != "origin: 32 bytes do not fit imu, which has 64" {
			t.Errorf("got %q", got)
		}

		if err := robot.node.Apply(Config{Layouts: layouts.Rules{{Channels: "imu", Encoded: later}}}); err != nil {
			t.Fatal(err)
		}
		w.within(second, "the later layout", func() bool { return bytes.Equal(pc.says("base.robot.imu").Encoded, later) })
		if err := robot.node.Apply(Config{Layouts: layouts.Rules{{Channels: "log", Encoded: first}}}); err != nil {
			t.Fatal(err)
		}
		w.within(second, "no layout", func() bool { return pc.says("base.robot.imu").Encoded == nil })
		if got := pc.says("base.robot.imu"); got.Why != "" {
			t.Errorf("got %+v, want that there is none", got)
		}
	})
}

func TestRelayReportsWhyLayoutIsMissing(t *testing.T) {
	inWorld(t, func(w *world) {
		robot := w.host("robot", wire10ms)
		robot.channel("imu", 64, 64).put(1, 64)
		robot.run(Config{Layouts: layouts.Rules{{Channels: "imu", Encoded: encodedLayout(t, "imu", 64)}}})
		_, pc := w.passes(robot)
		pc.follows("base.robot.imu", 1, 2*second)
		robot.stop()
		w.within(10*second, "the end of the link", func() bool { return pc.says("base/robot.imu").Why != "" })
		if got := pc.says("base/robot.imu"); got.Encoded != nil || got.Why != "base has not got it from robot: there is no link to it" {
			t.Errorf("got %+v", got)
		}
	})
}

// Neither an unresponsive origin nor a peer that sends endless requests makes the relay send many requests.
func TestRelayedLayoutRequestsAreLimited(t *testing.T) {
	inWorld(t, func(w *world) {
		base := w.host("base", siegeWire)
		base.run(Config{Mirrors: []rule.Mirror{{Host: "evil", Channel: "*"}}, Relay: []string{"*"}})
		evil, pc := w.member("evil", base), w.member("pc", base)
		evil.offers(wire.Channel{Name: "c0", FrameCount: 1, FrameSize: 16, Epoch: 1, Layout: layout.Hash(encodedLayout(t, "a", 8))})
		evil.serves("c0")
		w.within(second, "the mirror", func() bool { return base.mirror("evil.c0").State != status.MirrorWaiting })
		w.within(second, "the offer", func() bool {
			for _, c := range messages[wire.Catalog](pc) {
				for _, c := range c.Channels {
					if c.Name == "evil.c0" && c.Layout != (wire.Hash{}) {
						return true
					}
				}
			}
			return false
		})
		const all = 1000
		for i := range all {
			pc.say(wire.Describe{ID: uint32(i + 1), Channel: "evil.c0"})
		}
		w.within(second, "answers", func() bool { return len(messages[wire.Refused](pc)) == all-layouts.MaxUnanswered })
		if n := len(messages[wire.Describe](evil)); n != 1 {
			t.Errorf("got %d requests to the origin, want one", n)
		}
		w.within(7*second, "an answer to each", func() bool { return len(messages[wire.Refused](pc)) == all })
		last := messages[wire.Refused](pc)[all-1]
		if last.Code != wire.CodeAbsent || !strings.Contains(last.Text, "base has not got it from evil: it does not answer") {
			t.Errorf("got %+v", last)
		}
	})
}
