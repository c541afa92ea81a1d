package bridge

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
)

// A peer of an older version does not send its clock, as here a peer without a boot id.
func TestStampsNeedAPeerThatSendsItsClock(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		goal := robot.channel("goal", 4, 64)
		robot.run(Config{})
		sns := rule.QoS{Stamps: stamps.SNS}
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "goal", QoS: sns}}}, robot)
		goal.put(1, 64)
		time.Sleep(5 * time.Second) // virtual time
		if m := pc.mirror("robot.goal"); m.State != status.MirrorRefused || !strings.Contains(m.Reason, "update robot") || m.Seq != 0 {
			t.Errorf("got %s (%s) at frame %d, want it refused before a frame is put", m.State, m.Reason, m.Seq)
		}
	})
}

func TestStampsOfARelayedChannelAreRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, base, pc := w.host("robot", wire10ms), w.host("base", wire10ms), w.host("pc", wire10ms)
		goal := robot.channel("goal", 4, 64)
		robot.run(Config{Machine: Machine{Boot: [16]byte{1}}})
		base.run(Config{Machine: Machine{Boot: [16]byte{2}}, Relay: []string{"*"}, Mirrors: []rule.Mirror{{Host: "robot", Channel: "goal"}}}, robot)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "base", Channel: "robot.goal", QoS: rule.QoS{Stamps: stamps.SNS}}}}, base)
		goal.put(1, 64)
		time.Sleep(5 * time.Second) // virtual time
		if m := pc.mirror("base.robot.goal"); m.State != status.MirrorRefused || !strings.Contains(m.Reason, "mirror it from robot") || m.Seq != 0 {
			t.Errorf("got %s (%s) at frame %d, want it refused before a frame is put", m.State, m.Reason, m.Seq)
		}
	})
}
