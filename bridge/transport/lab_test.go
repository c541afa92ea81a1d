package transport

import (
	"cmp"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
	"go.uber.org/goleak"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
	"achbridge/testnet/await"
)

// lab is the network of endpoints in a test: an emulated network in virtual time, or the
// loopback interface.
type lab struct {
	listen func(net.PacketConn, Config) (*Endpoint, error) // the transport under test
	bind   func(*testing.T, netip.AddrPort) net.PacketConn
	air    *air // what is between the nodes; nil where that is out of our hands
	// pair is a session between two new nodes: robot, which listened, and pc, which
	// dialled.
	pair func(*testing.T) (robot, pc *session.Session)
	keys [2]trust.Key

	sockets map[*Endpoint]net.PacketConn
	logs    map[*Endpoint]*logs
	ports   uint16
}

// scenario is one behaviour of the contract.
type scenario func(*testing.T, *lab)

// inBubble runs s in virtual time on an emulated network. The bubble fails the
// test when a goroutine outlives it.
func inBubble(listen func(net.PacketConn, Config) (*Endpoint, error), s scenario) func(*testing.T) {
	return func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			air := newAir()
			var links []*simnet.SimulatedLink
			defer func() {
				for _, l := range links {
					l.Close()
				}
			}()
			bind := func(_ *testing.T, at netip.AddrPort) net.PacketConn {
				link := &simnet.SimulatedLink{LatencyFunc: air.delay, UploadPacket: air}
				addr := net.UDPAddrFromAddrPort(at)
				conn := simnet.NewBlockingSimConn(addr, link)
				link.Start()
				air.AddNode(addr, link) // only now: packets for an earlier owner are on their way
				links = append(links, link)
				return conn
			}
			l := newLab(listen, bind)
			l.air = air
			defer l.close()
			s(t, l)
		})
	}
}

// onLoopback runs s over real sockets, and checks that none stays open.
func onLoopback(listen func(net.PacketConn, Config) (*Endpoint, error), s scenario) func(*testing.T) {
	return func(t *testing.T) {
		defer goleak.VerifyNone(t)
		l := newLab(listen, func(t *testing.T, at netip.AddrPort) net.PacketConn { return bindLoopback(t, at) })
		defer l.close()
		s(t, l)
	}
}

var loopback = netip.MustParseAddr("127.0.0.1")

// bindLoopback opens a socket at an address of the loopback interface, or at any
// port of it when at is elsewhere.
func bindLoopback(t testing.TB, at netip.AddrPort) net.PacketConn {
	if at.Addr() != loopback {
		at = netip.AddrPortFrom(loopback, 0)
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatalf("bind: %v", err)
	}
	return conn
}

func newLab(listen func(net.PacketConn, Config) (*Endpoint, error), bind func(*testing.T, netip.AddrPort) net.PacketConn) *lab {
	l := &lab{
		listen: listen, bind: bind,
		keys:    [2]trust.Key{trust.NewKey(), trust.NewKey()},
		sockets: make(map[*Endpoint]net.PacketConn),
		logs:    make(map[*Endpoint]*logs),
	}
	l.pair = func(t *testing.T) (robot, pc *session.Session) {
		t.Helper()
		return l.join(t, l.node(t, "robot"), l.node(t, "pc"))
	}
	return l
}

func (l *lab) close() {
	for e := range l.sockets {
		e.Close()
	}
}

// node starts an endpoint for host, at a new address.
func (l *lab) node(t *testing.T, host string) *Endpoint {
	t.Helper()
	return l.start(t, Config{Key: l.keys[0], Node: nodeOf(host), Host: host})
}

func (l *lab) start(t *testing.T, cfg Config) *Endpoint {
	t.Helper()
	l.ports++
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(l.ports)}), 8076)
	return l.startAt(t, at, cfg)
}

func (l *lab) startAt(t *testing.T, at netip.AddrPort, cfg Config) *Endpoint {
	t.Helper()
	log := &logs{}
	if cfg.ResetSecret == ([32]byte{}) {
		copy(cfg.ResetSecret[:], cfg.Node[:]) // kept over restarts
	}
	cfg.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	conn := l.bind(t, at)
	e, err := l.listen(conn, cfg)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	l.sockets[e], l.logs[e] = conn, log
	return e
}

// crash ends an endpoint as SIGKILL would: its socket is gone and no word is said.
func (l *lab) crash(e *Endpoint) netip.AddrPort {
	at := e.localAddr().(*net.UDPAddr).AddrPort()
	l.sockets[e].Close()
	e.Close()
	return at
}

func (l *lab) join(t *testing.T, listener, dialler *Endpoint) (accepted, dialled *session.Session) {
	t.Helper()
	ctx := await.Context(t)
	dialled, err := dialler.Dial(ctx, listener.LocalAddrs())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err = listener.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return accepted, dialled
}

// patience is the time, in virtual time, for which a test waits for an expected event.
const patience = 15 * time.Second

func waitDone(t *testing.T, s *session.Session) error {
	t.Helper()
	await.Receive(t, "the end of the session", s.Done())
	return s.Err()
}

// nodeOf gives every host name a node id of its own.
func nodeOf(host string) trust.NodeID {
	n := trust.NodeID{0: 0xac}
	copy(n[1:], host)
	return n
}

// logs keeps what was logged.
type logs struct{ await.Log }

// lines returns the lines that contain text.
func (b *logs) lines(text string) []string {
	var found []string
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// localAddr returns the local address of an endpoint, that for QUIC if it has both.
func (e *Endpoint) localAddr() net.Addr { return cmp.Or(e.addrs.QUIC, e.addrs.SCTP) }
