package sctp

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
	"achbridge/testnet/await"
)

// lab is an emulated network in virtual time. All nodes share one key.
type lab struct {
	simnet.PerfectRouter
	sent atomic.Int64 // packets
	key  trust.Key
}

const (
	oneWay   = 5 * time.Millisecond // delay of the network
	patience = 15 * time.Second     // longest wait for an expected event
)

// inBubble runs s. The bubble fails the test when a goroutine outlives it.
func inBubble(s func(*testing.T, *lab)) func(*testing.T) {
	return func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { s(t, &lab{key: trust.NewKey()}) })
	}
}

// SendPacket drops packets to an address without a host.
func (l *lab) SendPacket(p simnet.Packet) error {
	l.sent.Add(1)
	l.PerfectRouter.SendPacket(p)
	return nil
}

func (l *lab) bind(t *testing.T, at string) net.PacketConn {
	addr := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(at))
	link := &simnet.SimulatedLink{LatencyFunc: func(simnet.Packet) time.Duration { return oneWay }, UploadPacket: l}
	conn := simnet.NewBlockingSimConn(addr, link)
	link.Start()
	l.AddNode(addr, link)
	t.Cleanup(func() { link.Close() })
	return conn
}

// node is a Protocol whose caller admits every handshake and records every session.
type node struct {
	*Protocol
	addr     net.Addr
	arrivals chan *session.Session
	pending  atomic.Int32 // handshakes
}

// node starts a node of the host at 10.0.0.last.
func (l *lab) node(t *testing.T, host, last string) *node {
	t.Helper()
	conn := l.bind(t, "10.0.0."+last+":8076")
	member := l.member(t, host)
	n := &node{addr: conn.LocalAddr(), arrivals: make(chan *session.Session, 8)}
	n.Protocol = Listen(conn, session.Settings{
		Inbox: n, Refusals: n, Handshakes: n,
		Member:      func() *trust.Member { return member },
		Leaving:     func() bool { return false },
		IdleTimeout: 10 * time.Second, ResetSecret: []byte(host), Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(n.Close)
	return n
}

func (n *node) Arrived(s *session.Session)          { n.arrivals <- s }
func (n *node) Failed(error)                        {}
func (n *node) Report(net.Addr, trust.Claim, error) {}
func (n *node) AtLeast(int) bool                    { return false }

func (n *node) Enter(netip.Addr, func()) session.Handshake {
	n.pending.Add(1)
	return place{n}
}

// place counts a handshake.
type place struct{ n *node }

func (place) Reached(session.Stage) {}
func (p place) Leave()              { p.n.pending.Add(-1) }

// link returns the link of the only session that a node has.
func (n *node) link() *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.links {
		return l
	}
	return nil
}

// join makes a session between two nodes.
func (l *lab) join(t *testing.T, listener, dialler *node) (accepted, dialled *session.Session) {
	t.Helper()
	dialled, err := dialler.Dial(await.Context(t), listener.addr)
	if err != nil {
		t.Fatal(err)
	}
	return await.Receive(t, "the session", listener.arrivals), dialled
}

func (l *lab) member(t *testing.T, host string) *trust.Member {
	t.Helper()
	var node trust.NodeID
	copy(node[:], host)
	member, err := trust.NewMember(l.key, trust.Peer{Node: node, Host: host}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return member
}

// certificate returns the certificate of a member.
func (l *lab) certificate(t *testing.T, host string) tls.Certificate {
	t.Helper()
	c, err := l.member(t, host).Certificate()
	if err != nil {
		t.Fatal(err)
	}
	return *c
}
