package bridge

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// A peer of an older version does not send its clock.
func TestStampsNeedClockOfPeer(t *testing.T) {
	old := &link{host: "robot"}
	source, err := (&Node{}).stampSource(&binding{}, old, wire.Channel{}, rule.QoS{Stamps: "sns"})
	if source != nil || err == nil || !strings.Contains(err.Error(), "update robot") {
		t.Errorf("stampSource = %v, %v, want the advice to update the host", source, err)
	}
}

func TestStampsOfARelayedChannelAreRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, base, pc := w.host("robot", wire10ms), w.host("base", wire10ms), w.host("pc", wire10ms)
		goal := robot.channel("goal", 4, 64)
		robot.run(Config{Machine: Machine{Boot: [16]byte{1}}})
		base.run(Config{Machine: Machine{Boot: [16]byte{2}}, Relay: []string{"*"}, Mirrors: []rule.Mirror{{Host: "robot", Channel: "goal"}}}, robot)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "base", Channel: "robot.goal", QoS: rule.QoS{Stamps: "sns"}}}}, base)
		goal.put(1, 64)
		time.Sleep(5 * time.Second) // virtual time
		if m := pc.mirror("base.robot.goal"); m.State != status.MirrorRefused || !strings.Contains(m.Reason, "mirror it from robot") || m.Seq != 0 {
			t.Errorf("got %s (%s) at frame %d, want it refused before a frame is put", m.State, m.Reason, m.Seq)
		}
	})
}
