package testnet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"achbridge/bridge/status"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// A daemon mirrors channels over achd's protocol, over TCP and UDP, and the robot's link is cut. The kernel detects
// that the peer is silent. After the cut, frames arrive again, none twice or out of order.
func TestMirrorOfAchdResumesAfterCut(t *testing.T) {
	need.Long(t)
	s := newSite(t, "robot", "pc")
	file := filepath.Join(t.TempDir(), "robot.yaml")
	if err := os.WriteFile(file, []byte("achd: {from: [0.0.0.0/0], channels: [imu]}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.publish("robot", "imu:20:1024")
	s.run("robot", "--config", file, "--achd", ":8076").awaitLog("daemon started")
	s.run("pc", "--mirror", "achd://"+s.addr("robot")+"/imu,as=tcp,mode=every", "--mirror", "achd+udp://"+s.addr("robot")+"/imu,as=udp").awaitLog("daemon started")
	all := func(state status.MirrorState) {
		t.Helper()
		await.NoError(t, func() error {
			for _, m := range s.status("pc").Mirrors {
				if m.State != state || !m.Unauthenticated {
					return fmt.Errorf("%s is %s: %s", m.Name, m.State, m.Reason)
				}
			}
			return nil
		})
	}
	all(status.MirrorLive)
	o := s.observe("pc", "keep:tcp", "keep:udp")
	o.waitUntilFollowing(now(), resumeLimit, "keep:tcp", "keep:udp")
	s.link("robot", "loss=100%")
	all(status.MirrorWaiting)
	s.link("robot", "loss=0%")
	all(status.MirrorLive)
	o.waitUntilFollowing(now(), resumeLimit, "keep:tcp", "keep:udp")
}
