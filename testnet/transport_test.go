package testnet_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Real daemons with both transports, and nftables between them: whatever is
// filtered, the mirror follows over the other one.

// The ports of the transports.
const (
	quicPort = 8076
	sctpPort = 8077
)

// noticed is how long it may take until a link is known to be silent: 550 ms,
// looked at every 250 ms, and as much again for a machine with other work.
const noticed = 1500 * time.Millisecond

// filter is what the nftables of a host do with the UDP packets to a port.
type filter struct {
	host, hook string
	port       int
	verdict    string
}

func (f filter) String() string {
	return fmt.Sprintf("%s %s %d %s", f.host, f.hook, f.port, f.verdict)
}

// set makes f the only filter of its host.
func (s *site) set(f filter) {
	s.t.Helper()
	rules := fmt.Sprintf(`flush ruleset
table inet filter {
	chain %s {
		type filter hook %[1]s priority 0
		udp dport %d %s
	}
}
`, f.hook, f.port, f.verdict)
	cmd := s.lab.Command(f.host, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("nft on %s: %v\n%s", f.host, err, out)
	}
}

// newFilteredSite is a site whose hosts can filter packets.
func newFilteredSite(t *testing.T, names ...string) *site {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		why := "no program nft to filter packets with: apt-get install nftables"
		if os.Getenv("ACHBRIDGE_NO_SKIP") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	s := newSite(t, names...)
	if out, err := s.lab.Command(names[0], "nft", "list", "ruleset").CombinedOutput(); err != nil {
		t.Skipf("the kernel has no nftables: %v: %s", err, out)
	}
	return s
}

// linkedOver waits until a host has one link, over a transport.
func (s *site) linkedOver(host, transport string, limit time.Duration) {
	s.t.Helper()
	await(s.t, limit, func() error {
		l := s.status(host).Links
		if len(l) != 1 || l[0].Transport.String() != transport || l[0].State != "up" {
			return fmt.Errorf("links of %s: got %+v, want one over %s", host, l, transport)
		}
		return nil
	})
}

func TestMirrorComesOverTheTransportThatIsNotFiltered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter filter
		want   string
		often  bool // it is tried in every run
	}{
		{filter{"robot", "input", quicPort, "drop"}, "sctp", true},
		{filter{"robot", "input", quicPort, "reject"}, "sctp", false},
		{filter{"pc", "input", quicPort, "drop"}, "sctp", false},
		{filter{"pc", "output", quicPort, "drop"}, "sctp", true},
		{filter{"robot", "input", sctpPort, "drop"}, "quic", false},
		{filter{"robot", "input", sctpPort, "reject"}, "quic", true},
	} {
		t.Run(c.filter.String(), func(t *testing.T) {
			if !c.often {
				longRun(t)
			}
			s := newFilteredSite(t, "robot", "pc")
			s.set(c.filter)
			s.publish("robot", "imu:200:64")
			s.run("robot").awaitLog("msg=running", met)
			readers := s.observe("pc", keeping)
			s.run("pc", "--peer=robot", "--mirror=robot/*").awaitLog("msg=running", met)
			took := readers.follows(now(), resumed, keeping)
			s.linkedOver("pc", c.want, patience)
			t.Logf("mirrored over %s %v after both ran", c.want, took)
		})
	}
}

func TestHostsThatHearBothTransportsTakeQUIC(t *testing.T) {
	s := newSite(t, "robot", "pc")
	s.publish("robot", "imu:200:64")
	s.run("robot")
	readers := s.observe("pc", keeping)
	s.run("pc", "--mirror=robot/*")
	readers.follows(now(), resumed, keeping)
	for _, host := range []string{"robot", "pc"} {
		s.linkedOver(host, "quic", patience)
	}
}

func TestMirrorGoesOnOverTheOtherTransportWhenItsOwnIsFiltered(t *testing.T) {
	t.Parallel()
	for _, f := range []filter{
		{"pc", "input", quicPort, "drop"},
		{"pc", "input", quicPort, "reject"},
		{"robot", "output", quicPort, "drop"},
	} {
		t.Run(f.String(), func(t *testing.T) {
			if f.host != "robot" {
				longRun(t)
			}
			s := newFilteredSite(t, "robot", "pc")
			s.publish("robot", "imu:200:64")
			s.run("robot")
			s.run("pc", "--mirror=robot/*")
			readers := s.observe("pc", keeping)
			readers.follows(now(), met, keeping)
			s.linkedOver("pc", "quic", patience)
			for _, step := range []struct {
				port int
				want string
			}{{quicPort, "sctp"}, {sctpPort, "quic"}} {
				f.port = step.port
				s.set(f)
				took := readers.follows(now(), noticed+resumed, keeping)
				t.Logf("%s: followed again after %v", f, took)
				s.linkedOver("pc", step.want, patience)
			}
		})
	}
}

// The robot, which wants a channel of the PC, dials too, and knows nothing of the
// PC's wish.
func TestListedPeerIsLinkedOverTheTransportItIsListedWith(t *testing.T) {
	s := newSite(t, "robot", "pc")
	s.publish("robot", "imu:200:64")
	s.publish("pc", "goal:200:64")
	s.run("robot", "--mirror=pc/*")
	s.run("pc", "--peer=robot,transport=sctp", "--mirror=robot/*")
	atPC, atRobot := s.observe("pc", keeping), s.observe("robot", "keep:pc.goal")
	atPC.follows(now(), met, keeping)
	atRobot.follows(now(), met, "keep:pc.goal")
	for _, host := range []string{"robot", "pc"} {
		s.linkedOver(host, "sctp", patience)
	}
}

func TestRobotWithOneTransportIsFoundByMulticastWhereItListens(t *testing.T) {
	t.Parallel()
	for over, port := range map[string]string{"sctp": ":9001", "quic": ":9000"} {
		t.Run(over, func(t *testing.T) {
			s := newSite(t, "robot", "pc")
			s.publish("robot", "imu:200:64")
			s.run("robot", "--transport="+over, "--listen=:9000")
			s.run("pc", "--mirror=robot/*")
			readers := s.observe("pc", keeping)
			readers.follows(now(), met, keeping)
			s.linkedOver("pc", over, patience)
			for _, peer := range s.status("pc").Peers {
				for _, addr := range peer.Addrs {
					if !strings.HasSuffix(addr, port) {
						t.Errorf("address of %s: got %s, want %s alone, as announced", peer.Host, addr, port)
					}
				}
			}
		})
	}
}
