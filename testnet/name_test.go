package testnet_test

import (
	"fmt"
	"testing"

	"achbridge/testnet/await"
)

// waitForName waits until the daemon of a host reports want as the host's name.
func (s *site) waitForName(host, want string) {
	s.t.Helper()
	await.NoError(s.t, func() error {
		var got struct{ Host string }
		if err := s.get(host, "/v1/status", &got); err != nil || got.Host != want {
			return fmt.Errorf("the daemon calls the host %q (%v), want %s", got.Host, err, want)
		}
		return nil
	})
}

// At boot the daemon may start before the system has its name.
func TestDaemonUsesHostNameSetAfterStart(t *testing.T) {
	s := newSite(t, "robot", "pc", "named")
	s.shell("robot", "hostname localhost")
	s.publish("robot", imu)
	robot := s.run("robot")
	s.waitForName("robot", "localhost")
	s.shell("named", "hostname localhost")
	s.run("named", "--name", "localhost")
	s.waitForName("named", "localhost")
	for _, host := range []string{"robot", "named"} {
		s.shell(host, "hostname "+host)
	}
	s.waitForName("robot", "robot")
	s.run("pc", "--mirror", "robot/*")
	robot.awaitLog("link up")
	s.observe("pc", keeping).waitUntilFollowing(now(), meetLimit, keeping)

	s.shell("robot", "hostname arm")
	robot.awaitLog("system name differs, restart the daemon to use it")
	s.waitForName("robot", "robot")
	s.waitForName("named", "localhost") // the name in its configuration
}
