package testnet_test

import (
	"fmt"
	"testing"

	"achbridge/testnet/await"
)

// called waits until the daemon of a host reports want as the name of the host.
func (s *site) called(host, want string) {
	s.t.Helper()
	await.NoError(s.t, func() error {
		var got struct{ Host string }
		if err := s.api(host, "/v1/status", &got); err != nil || got.Host != want {
			return fmt.Errorf("the daemon calls the host %q (%v), want %s", got.Host, err, want)
		}
		return nil
	})
}

// At boot the daemon may begin before the system has its name.
func TestHostThatIsNamedAfterTheStartHasItsName(t *testing.T) {
	s := newSite(t, "robot", "pc", "named")
	s.shell("robot", "hostname localhost")
	s.publish("robot", imu)
	robot := s.run("robot")
	s.called("robot", "localhost")
	s.shell("named", "hostname localhost")
	s.run("named", "--name", "localhost")
	s.called("named", "localhost")
	for _, host := range []string{"robot", "named"} {
		s.shell(host, "hostname "+host)
	}
	s.called("robot", "robot")
	s.run("pc", "--mirror", "robot/*")
	robot.awaitLog("link up")
	s.observe("pc", keeping).follows(now(), met, keeping)

	s.shell("robot", "hostname arm")
	robot.awaitLog("which this host takes when the daemon is started again")
	s.called("robot", "robot")
	s.called("named", "localhost") // as its configuration says
}
