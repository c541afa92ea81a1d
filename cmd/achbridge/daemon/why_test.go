package daemon

import (
	"testing"

	"achbridge/bridge/status"
)

func TestWhyResolvesNames(t *testing.T) {
	now := status.Report{Mirrors: []status.Mirror{{Host: "robot", Channel: "imu", Name: "robot.imu"}}}
	for of, want := range map[string]struct {
		name, host, channel string
		self                bool
	}{
		"robot/imu":       {"robot.imu", "robot", "imu", false},
		"ach://robot/imu": {"robot.imu", "robot", "imu", false},
		"robot.imu":       {"robot.imu", "robot", "imu", false},
		"robot/legs":      {"", "robot", "legs", false},
		"goal":            {"goal", "pc", "goal", true},
		"pc/goal":         {"goal", "pc", "goal", true},
	} {
		host, channel, name, err := channelOf(of, now, "pc")
		if err != nil || name != want.name || host != want.host || channel != want.channel || (host == "pc") != want.self {
			t.Errorf("%s: got %q %q %q, %v", of, name, host, channel, err)
		}
	}
	for _, of := range []string{"", "robot/*", "*/imu", "a/b/c", "/imu", "robot/"} {
		if _, _, _, err := channelOf(of, now, "pc"); err == nil {
			t.Errorf("%q: got no error", of)
		}
	}
}
