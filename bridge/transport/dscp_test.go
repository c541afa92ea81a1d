package transport

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
	"achbridge/bridge/via"
	"achbridge/testnet"
	"achbridge/testnet/await"
	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
)

func TestMain(m *testing.M) {
	hosts.Main()
	os.Exit(m.Run())
}

// wireLab has nodes on the hosts robot and pc, each in its own network namespace, and records the
// packets on the wire between them.
type wireLab struct {
	*hosts.Lab
	t   *testing.T
	key trust.Key

	mu      sync.Mutex
	packets []wirePacket
}

// wirePacket is a packet and the host that sent it.
type wirePacket struct {
	hosts.UDP
	host string
}

func (p wirePacket) dscp() via.DSCP { return via.DSCP(p.DSCP()) }

func newWireLab(t *testing.T) *wireLab {
	t.Helper()
	l := &wireLab{t: t, key: trust.NewKey(), Lab: hosts.StartTest(t, hosts.Config{Hosts: []string{"robot", "pc"}})}
	t.Cleanup(l.Listen(func(host string, frame []byte) {
		if p, ok := hosts.ParseUDP(frame); ok {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.packets = append(l.packets, wirePacket{p, host})
		}
	}))
	return l
}

// since returns the packets after the first n that a host has sent to a port.
func (l *wireLab) since(n int, host string, port uint16) (found []wirePacket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.packets[n:] {
		if p.host == host && p.Port == port {
			found = append(found, p)
		}
	}
	return found
}

func (l *wireLab) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.packets)
}

// node starts an endpoint with one transport on a host, at a port.
func (l *wireLab) node(host, name string, over via.Kind, port uint16) (*Endpoint, *logs) {
	l.t.Helper()
	conn, err := hosts.In(l.Lab, host, func() (net.PacketConn, error) { return net.ListenPacket("udp", fmt.Sprint(":", port)) })
	if err != nil {
		l.t.Fatal(err)
	}
	log := &logs{}
	cfg := Config{Key: l.key, Node: nodeOf(name), Host: name, Log: slog.New(slog.NewTextHandler(log, nil))}
	quicConn := conn
	if over == via.SCTP {
		quicConn, cfg.SCTP = nil, conn
	}
	e, err := Listen(quicConn, cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { e.Close() })
	return e, log
}

// dialAt dials a node at an address and returns the session's two ends.
func dialAt(t *testing.T, listener, dialler *Endpoint, over via.Kind, at netip.AddrPort) (accepted, dialled *session.Session) {
	t.Helper()
	to := Addrs{QUIC: net.UDPAddrFromAddrPort(at)}
	if over == via.SCTP {
		to = Addrs{SCTP: to.QUIC}
	}
	dialled, err := dialler.Dial(await.Context(t), to)
	if err != nil {
		t.Fatal(err)
	}
	if accepted, err = listener.Accept(await.Context(t)); err != nil {
		t.Fatal(err)
	}
	return accepted, dialled
}

// sendUntil sends datagrams both ways until done returns true.
func sendUntil(t *testing.T, what string, robot, pc *session.Session, done func() bool) {
	t.Helper()
	await.True(t, what, func() bool {
		for _, s := range []*session.Session{robot, pc} {
			if err := s.SendDatagram(make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range []*session.Session{robot, pc} {
			if _, err := receive(t, s); err != nil {
				t.Fatal(err)
			}
		}
		return done()
	})
}

// wireCases calls f for both transports and both IP versions. The address is that of robot.
func wireCases(t *testing.T, f func(t *testing.T, l *wireLab, over via.Kind, at netip.AddrPort)) {
	l := newWireLab(t)
	for i, over := range []via.Kind{via.QUIC, via.SCTP} {
		for j, at := range []netip.Addr{testnet.HostAddr4(0), testnet.HostAddr6(0)} {
			t.Run(fmt.Sprintf("%v to %v", over, at), func(t *testing.T) {
				l.t = t
				f(t, l, over, netip.AddrPortFrom(at, uint16(8100+10*i+j)))
			})
		}
	}
}

// Two peers with one IP address have sessions with one node. The packets of each session have its
// own mark, and their ECN bits are unchanged.
func TestPacketsHaveTheMarkOfTheirSession(t *testing.T) {
	wireCases(t, func(t *testing.T, l *wireLab, over via.Kind, at netip.AddrPort) {
		const pcPort, camPort = 9076, 9176
		robotEnd, _ := l.node("robot", "robot", over, at.Port())
		pcEnd, _ := l.node("pc", "pc", over, pcPort)
		camEnd, _ := l.node("pc", "cam", over, camPort)
		robot, pc := dialAt(t, robotEnd, pcEnd, over, at)
		robotToCam, cam := dialAt(t, robotEnd, camEnd, over, at)
		begin := l.count()
		sendUntil(t, "packets without a mark", robot, pc, func() bool { return len(l.since(begin, "robot", pcPort)) >= 20 })
		for _, p := range l.since(begin, "robot", pcPort) {
			if p.dscp() != via.CS0 {
				t.Fatalf("before SetDSCP: got a packet with %v, want CS0", p.dscp())
			}
		}

		robot.SetDSCP(via.CS6)
		robotToCam.SetDSCP(via.CS1)
		if robot.DSCP() != via.CS6 || robotToCam.DSCP() != via.CS1 || pc.DSCP() != via.CS0 {
			t.Errorf("DSCP: got %v, %v, and %v at the peer, want CS6, CS1 and CS0", robot.DSCP(), robotToCam.DSCP(), pc.DSCP())
		}
		queued := l.count()
		marked := func(s, peer *session.Session, port uint16, want via.DSCP) {
			t.Helper()
			sendUntil(t, "a marked packet", s, peer, func() bool {
				sent := l.since(queued, "robot", port)
				return len(sent) > 0 && sent[len(sent)-1].dscp() == want
			})
			begin := l.count()
			sendUntil(t, "marked packets", s, peer, func() bool {
				sent := l.since(begin, "robot", port)
				return len(sent) >= 20 && (over == via.SCTP || sent[len(sent)-1].ECN() != 0)
			})
			for _, p := range l.since(begin, "robot", port) {
				if p.dscp() != want || over == via.SCTP && p.ECN() != 0 || p.ECN() == 3 {
					t.Fatalf("got a packet with %v and ECN %d, want %v", p.dscp(), p.ECN(), want)
				}
			}
		}
		marked(robot, pc, pcPort, via.CS6)
		marked(robotToCam, cam, camPort, via.CS1)
		for _, p := range l.since(begin, "pc", at.Port()) {
			if p.dscp() != via.CS0 {
				t.Fatalf("from the peer: got a packet with %v, want CS0", p.dscp())
			}
		}
		robot.SetDSCP(via.CS0)
		marked(robot, pc, pcPort, via.CS0)
		marked(robotToCam, cam, camPort, via.CS1)
	})
}

// The kernel refuses packets with a mark: netfilter drops them on their way out.
func TestSessionGoesOnWithoutRefusedMarks(t *testing.T) {
	nft := need.Program(t, "nft", "nftables")
	wireCases(t, func(t *testing.T, l *wireLab, over via.Kind, at netip.AddrPort) {
		cmd := l.Command("robot", nft, "-f", "-")
		cmd.Stdin = strings.NewReader("flush ruleset\ntable inet filter {\n chain output {\n type filter hook output priority 0\n ip dscp cs6 drop\n ip6 dscp cs6 drop\n }\n}\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("the kernel has no nftables: %v: %s", err, out)
		}
		robotEnd, log := l.node("robot", "robot", over, at.Port())
		pcEnd, _ := l.node("pc", "pc", over, 9076)
		robot, pc := dialAt(t, robotEnd, pcEnd, over, at)
		if err := robotEnd.MarkingErr(); err != nil {
			t.Fatalf("before SetDSCP: got %v", err)
		}
		robot.SetDSCP(via.CS6)
		sent := 0
		sendUntil(t, "datagrams after the refusal", robot, pc, func() bool {
			if robotEnd.MarkingErr() != nil {
				sent++
			}
			return sent == 20
		})
		if err := robotEnd.MarkingErr(); !strings.Contains(err.Error(), "operation not permitted") {
			t.Errorf("MarkingErr: got %v, want operation not permitted", err)
		}
		if got := robot.DSCP(); got != via.CS0 {
			t.Errorf("DSCP: got %v, want CS0", got)
		}
		if said := log.lines("cannot mark packets"); len(said) != 1 {
			t.Errorf("log: got %q, want one line", said)
		}
	})
}
