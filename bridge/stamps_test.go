package bridge

import (
	"math"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/layout"
	"achbridge/bridge/layouts"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// A peer of an older version does not send its clock.
func TestStampsNeedClockOfPeer(t *testing.T) {
	old := &link{host: "robot"}
	source, _, err := (&Node{}).stampSource(&binding{}, old, wire.Channel{}, rule.QoS{Stamps: "sns"})
	if source != nil || err == nil || !strings.Contains(err.Error(), "update robot") {
		t.Errorf("stampSource = %v, %v, want the advice to update the host", source, err)
	}
}

// A relay of an older version does not name the clock.
func TestStampsOfARelayedChannelNeedItsClock(t *testing.T) {
	old := &link{host: "base", hello: hello{start: 1, machine: Machine{Boot: [16]byte{1}}}}
	relayed := wire.Channel{Origin: &wire.Origin{Node: [16]byte{1}, Host: "robot", Channel: "goal"}}
	source, _, err := (&Node{}).stampSource(&binding{}, old, relayed, rule.QoS{Stamps: "sns"})
	if source != nil || err == nil || !strings.Contains(err.Error(), "update base and robot, or mirror it from robot") {
		t.Errorf("stampSource = %v, %v, want the advice to update the hosts", source, err)
	}
}

// encodedPair returns a layout with two integers of 64 bits, the first of them called name.
func encodedPair(t *testing.T, name string) []byte {
	t.Helper()
	l := layout.Layout{Name: "goal", Size: 64, Fields: []layout.Field{{Name: name, Type: layout.Int64}, {Name: "dur", Type: layout.Int64, Offset: 8}}}
	b, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Fields of a rule are looked up in the layout of the origin, and in that of this host's configuration if it has one.
func TestStampsUseFieldsOfLayout(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		goal := robot.channel("goal", 4, 64)
		types := func(encoded []byte) layouts.Rules { return layouts.Rules{{Channels: "*goal", Encoded: encoded}} }
		robot.run(Config{Machine: Machine{Boot: [16]byte{1}}, Layouts: types(encodedPair(t, "stamp"))})
		mirrors := []rule.Mirror{{Host: "robot", Channel: "goal", QoS: rule.QoS{Stamps: "time:stamp;duration:dur"}}}
		pc.run(Config{Machine: Machine{Boot: [16]byte{2}}, Mirrors: mirrors}, robot)
		goal.put(1, 64)
		w.within(3*second, "the first frame", func() bool {
			m := pc.mirror("robot.goal")
			return m.State == status.MirrorLive && m.Stamps != nil && m.Seq == 1
		})

		refused := func() bool {
			m := pc.mirror("robot.goal")
			return m.State == status.MirrorRefused && strings.Contains(m.Reason, "time: stamp: goal has no such field")
		}
		if err := robot.node.Apply(Config{Layouts: types(encodedPair(t, "renamed"))}); err != nil {
			t.Fatal(err)
		}
		w.within(3*second, "a refusal, for the layout of the origin lacks the field", refused)
		if err := pc.node.Apply(Config{Mirrors: mirrors, Layouts: types(encodedPair(t, "stamp"))}); err != nil {
			t.Fatal(err)
		}
		goal.put(2, 64)
		w.within(3*second, "the second frame", func() bool {
			m := pc.mirror("robot.goal")
			return m.State == status.MirrorLive && m.Stamps != nil && m.Seq == 2
		})
		if err := pc.node.Apply(Config{Mirrors: mirrors, Layouts: types(encodedPair(t, "other"))}); err != nil {
			t.Fatal(err)
		}
		w.within(3*second, "a refusal, for the layout of this host lacks the field", refused)
	})
}

func TestStampsOfChannelWithoutLayoutAreRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.channel("goal", 4, 64).put(1, 64)
		robot.run(Config{Machine: Machine{Boot: [16]byte{1}}})
		pc.run(Config{Machine: Machine{Boot: [16]byte{2}}, Mirrors: []rule.Mirror{{Host: "robot", Channel: "goal", QoS: rule.QoS{Stamps: "time:stamp"}}}}, robot)
		w.within(3*second, "a refusal", func() bool {
			return strings.Contains(pc.mirror("robot.goal").Reason, "no layout of robot/goal is known; name its file in types")
		})
	})
}

// A mirror whose layout has a field that looks like a stamp needs the option, unless the clocks of the hosts agree.
func TestStatusWarnsOfUnshiftedStamps(t *testing.T) {
	for name, c := range map[string]struct {
		robotUp, pcUp time.Duration
		field         string
		option        stamps.Rule
		want          bool
	}{
		"without the option": {tenDays, time.Hour, "stamp", "", true},
		"with the option":    {tenDays, time.Hour, "stamp", "time:stamp", false},
		"another field":      {tenDays, time.Hour, "number", "", false},
		"clocks agree":       {time.Hour, time.Hour + 900*time.Millisecond, "stamp", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				robot.mono, pc.mono = up(c.robotUp, 0), up(c.pcUp, 0)
				robot.channel("goal", 4, 64).put(1, 64)
				robot.run(Config{})
				types := layouts.Rules{{Channels: "*goal", Encoded: encodedPair(t, c.field)}}
				pc.run(Config{Layouts: types, Mirrors: []rule.Mirror{{Host: "robot", Channel: "goal", QoS: rule.QoS{Stamps: c.option}}}}, robot)
				w.within(3*second, "the mirror", func() bool { return pc.mirror("robot.goal").Seq == 1 })
				time.Sleep(second)
				got := pc.mirror("robot.goal").Unshifted
				if (got != nil) != c.want || got != nil && (got.Rule != "time:stamp" || math.Abs(got.OriginUptimeS-got.UptimeS-(tenDays-time.Hour).Seconds()) > 1) {
					t.Errorf("got %+v, want a warning: %v", got, c.want)
				}
			})
		})
	}
}
