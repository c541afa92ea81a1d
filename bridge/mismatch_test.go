package bridge

import (
	"testing"

	"achbridge/bridge/layouts"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// mismatch returns the mismatch of the newest frame of a channel or mirror according to the status;
// "" if it fits.
func (h *host) mismatch(name string) string {
	s := h.node.Status()
	for _, c := range s.Locals {
		if c.Channel == name && c.Mismatch != nil {
			return string(c.Mismatch.TypeFrom) + ": " + c.Mismatch.Why
		}
	}
	for _, m := range s.Mirrors {
		if m.Name == name && m.Mismatch != nil {
			return string(m.Mismatch.TypeFrom) + ": " + m.Mismatch.Why
		}
	}
	return ""
}

func TestMismatchIsReportedWhereLayoutIsKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, other := w.host("robot", wire10ms), w.host("pc", wire10ms), w.host("other", wire10ms)
		imu := robot.channel("imu", 4, 64)
		robot.run(Config{Layouts: layouts.Rules{{Channels: "imu", Encoded: encodedLayout(t, "imu", 64)}}})
		wanted := []rule.Mirror{{Host: "robot", Channel: "*"}}
		pc.run(Config{Mirrors: wanted}, robot)
		other.run(Config{Mirrors: wanted, Layouts: layouts.Rules{{Channels: "robot/i*", Encoded: encodedLayout(t, "mine", 48)}}}, robot)
		expect := func(h *host, name, want string) {
			t.Helper()
			if got := h.mismatch(name); got != want {
				t.Errorf("%s: got %q, want %q", h.name, got, want)
			}
		}
		expect(robot, "imu", "") // no frame yet
		imu.put(1, 64)
		pc.follows("robot.imu", 1, second)
		other.follows("robot.imu", 1, second)
		expect(robot, "imu", "")
		expect(pc, "robot.imu", "")
		expect(other, "robot.imu", "file: 64 bytes do not fit mine, which has 48")

		imu.put(2, 48)
		pc.follows("robot.imu", 2, second)
		other.follows("robot.imu", 2, second)
		expect(robot, "imu", "file: 48 bytes do not fit imu, which has 64")
		expect(pc, "robot.imu", "") // no request for the layout yet
		expect(other, "robot.imu", "")
		pc.says("robot.imu")
		expect(pc, "robot.imu", "origin: 48 bytes do not fit imu, which has 64")
		if s := pc.node.Status(); s.Mirrors[0].Health() != status.HealthLive {
			t.Errorf("got %s, want a mirror that is live all the same", s.Mirrors[0].Health())
		}
	})
}
