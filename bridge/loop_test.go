package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// A node refuses to send a channel back to its origin. Here a member offers the receiver its own
// channel despite that.
func TestOwnChannelIsNotMirroredFromPeer(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.host("pc", siegeWire)
		pc.channel("imu", 16, 64).put(1, 64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "evil", Channel: "*"}}})
		evil := w.member("evil", pc)
		geometry := wire.Channel{FrameCount: 16, FrameSize: 64, Epoch: 7}
		own, other := geometry, geometry
		own.Name, own.Origin = "pc.imu", &wire.Origin{Node: [16]byte(pc.id), Host: "pc", Channel: "imu"}
		other.Name, other.Origin = "robot.imu", &wire.Origin{Node: [16]byte{9}, Host: "robot", Channel: "imu"}
		evil.offers(own, other)
		evil.serves("robot.imu") // shows that offers are handled
		time.Sleep(time.Second)
		for _, s := range messages[wire.Subscribe](evil) {
			if s.Channel == own.Name {
				t.Errorf("subscribed to %s, which is a channel of this host", s.Channel)
			}
		}
		if m := pc.mirror("evil.pc.imu"); m.State != status.MirrorRefused || m.Cause != status.CauseLoop {
			t.Errorf("got %s, cause %s, want it refused as a loop", m.State, m.Cause)
		}
		if pc.has("evil.pc.imu") {
			t.Error("there is a file for it")
		}
		if loops := pc.events(status.EventLoop); len(loops) != 1 {
			t.Errorf("got %d events of a loop, want one", len(loops))
		}
	})
}
