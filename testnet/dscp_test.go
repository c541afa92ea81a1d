package testnet_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"achbridge/testnet/await"
	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
)

// The status of the robot must show the mark that its packets have on the wire.
func TestDaemonMarksPacketsByChannels(t *testing.T) {
	ports := map[uint16]string{quicPort: "quic"}
	if need.IsLong() {
		ports[sctpPort] = "sctp"
	}
	for port, transport := range ports {
		t.Run(transport, func(t *testing.T) {
			s := newSite(t, "robot", "pc")
			var mu sync.Mutex
			marks := map[byte]int{} // packets from the robot to the PC, by DSCP
			t.Cleanup(s.lab.Listen(func(host string, frame []byte) {
				if p, ok := hosts.ParseUDP(frame); ok && host == "robot" && p.Port == port {
					mu.Lock()
					defer mu.Unlock()
					marks[p.DSCP()]++
				}
			}))
			s.publish("robot", "goal:50:64", "imu:50:64")
			s.run("robot")
			s.run("pc", "--transport", transport, "--mirror", "robot/goal,class=command").awaitLog("link up")
			sends := func(name string, dscp byte) {
				t.Helper()
				await.NoError(t, func() error {
					if links := s.status("robot").Links; len(links) != 1 || links[0].DSCP != name || links[0].Transport.String() != transport {
						return fmt.Errorf("links of robot: got %+v, want one over %s with %s", links, transport, name)
					}
					return nil
				})
				await.NoError(t, func() error { // packets queued before may have the former mark
					mu.Lock()
					defer mu.Unlock()
					if len(marks) == 1 && marks[dscp] >= 20 {
						return nil
					}
					got := fmt.Sprint(marks)
					if len(marks) > 1 {
						clear(marks)
					}
					return fmt.Errorf("packets by DSCP: got %s, want only %d", got, dscp)
				})
			}

			sends("CS6", 48)
			s.must("pc", "mirror", "robot/imu")
			sends("CS0", 0)
			s.must("pc", "mirror", "--off", "robot.imu")
			sends("CS6", 48)
			if err := os.WriteFile(s.inside("robot", "/etc/achbridge/achbridge.yaml"), []byte("dscp: off\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			s.must("robot", "reload")
			sends("CS0", 0)
		})
	}
}

// Some networks drop packets with a mark. Here the PC's kernel does.
func TestLinkRecoversWherePacketsWithMarksAreDropped(t *testing.T) {
	need.Long(t)
	need.Program(t, "nft", "nftables")
	for _, transport := range []string{"quic", "sctp"} {
		t.Run(transport, func(t *testing.T) {
			s := newSite(t, "robot", "pc")
			cmd := s.lab.Command("pc", "nft", "-f", "-")
			cmd.Stdin = strings.NewReader("table inet filter {\n chain input {\n type filter hook input priority 0\n ip dscp af41 drop\n }\n}\n")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Skipf("the kernel has no nftables: %v: %s", err, out)
			}
			s.publish("robot", "imu:50:64")
			robot := s.run("robot")
			s.run("pc", "--peer", s.addr("robot"), "--no-discovery", "--transport", transport, "--mirror", "robot/imu,priority=7")
			robot.awaitLog("link silent since its packets are marked")
			readers := s.observe("pc", keeping)
			t.Logf("followed after %v", readers.waitUntilFollowing(now(), resumeLimit, keeping))
			if links := s.status("robot").Links; len(links) != 1 || links[0].DSCP != "CS0" {
				t.Errorf("links of robot: got %+v, want one with CS0", links)
			}
		})
	}
}
