package testnet_test

import (
	"fmt"
	"strings"
	"testing"

	"achbridge/testnet/need"
)

// The ports of the transports.
const (
	quicPort = 8076
	sctpPort = 8077
)

// filter is what the nftables of a host do with the UDP packets to a port.
type filter struct {
	host, hook string
	port       int
	verdict    string
}

// set makes f the only filter of its host.
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
`, f.hook, f.port, f.verdict))
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("nft on %s: %v\n%s", f.host, err, out)
	}
}

// Real daemons with both transports, and nftables between them: whatever is filtered, the mirror
// comes over the other one, and goes on over it when its own is filtered. How a link chooses is
// asserted in package bridge; here it is what the kernel does with a filtered packet, and says.
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
		pc.awaitLog("msg=running")
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
