package testnet_test

import (
	"fmt"
	"strings"
	"testing"

	"achbridge/testnet/need"
)

// Ports of the transports.
const (
	quicPort = 8076
	sctpPort = 8077
)

// filter is an nftables rule of a host for UDP packets to a port.
type filter struct {
	host, hook string
	port       int
	action     string
}

// set replaces the filters of a host by f.
func (s *site) set(f filter) {
	s.t.Helper()
	cmd := s.lab.Command(f.host, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`flush ruleset
table inet filter {
	chain %s {
		type filter hook %[1]s priority 0
		udp dport %d %s
	}
}
`, f.hook, f.port, f.action))
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("nft on %s: %v\n%s", f.host, err, out)
	}
}

// Runs real daemons with both transports and nftables between them. If one transport is filtered, the
// mirror uses the other one, also if the filter begins while it runs. Package bridge tests how a link
// chooses its transport; this test is about how the kernel drops or rejects filtered packets.
func TestMirrorUsesUnfilteredTransport(t *testing.T) {
	need.Long(t)
	need.Program(t, "nft", "nftables")
	s := newSite(t, "robot", "pc")
	if out, err := s.lab.Command("pc", "nft", "list", "ruleset").CombinedOutput(); err != nil {
		t.Skipf("the kernel has no nftables: %v: %s", err, out)
	}
	s.publish("robot", imu)
	s.run("robot")
	readers := s.observe("pc", keeping)
	for _, f := range []filter{
		{"robot", "input", quicPort, "drop"},
		{"robot", "input", quicPort, "reject"},
		{"pc", "output", quicPort, "drop"},
	} {
		s.set(f)
		pc := s.run("pc", "--peer=robot", "--mirror=robot/*")
		pc.awaitLog("daemon started")
		began := now()
		readers.waitUntilFollowing(began, resumeLimit, keeping)
		s.linkedOver("pc", "sctp")
		for _, step := range []struct {
			port int
			want string
		}{{sctpPort, "quic"}, {quicPort, "sctp"}} {
			f.port = step.port
			s.set(f)
			s.linkedOver("pc", step.want)
			t.Logf("%v: followed again after %v", f, readers.waitUntilFollowing(now(), resumeLimit, keeping))
		}
		pc.terminate()
		s.shell(f.host, "nft flush ruleset")
	}
}
