package transport

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
	"achbridge/bridge/via"
	"achbridge/testnet"
	"achbridge/testnet/need"
)

func TestDialUsesAnsweringTransport(t *testing.T) {
	for _, c := range []struct {
		name     string
		filtered int // port
		want     via.Kind
		within   time.Duration
	}{
		{"Both", 0, via.QUIC, 250 * time.Millisecond},
		{"QUICFiltered", 8076, via.SCTP, time.Second},
		{"SCTPFiltered", 8077, via.QUIC, 250 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				robot, pc := bothNodes(t, c.filtered)
				start := time.Now()
				s, err := pc.Dial(t.Context(), robot.LocalAddrs())
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took > c.within {
					t.Errorf("session after %v, want it within %v", took, c.within)
				}
				accepted, err := robot.Accept(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if s.Transport() != c.want || accepted.Transport() != c.want {
					t.Errorf("transport: got %s and %s, want %s", s.Transport(), accepted.Transport(), c.want)
				}
				time.Sleep(session.HandshakeTimeout)
				nobodyArrives(t, robot)
				if s.Err() != nil {
					t.Errorf("err: got %v, want the session to live", s.Err())
				}
			})
		})
	}
}

func TestDialReturnsErrorOfBothTransports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		robot, _ := bothNodes(t, 0)
		if _, err := robot.Dial(t.Context(), robot.LocalAddrs()); !errors.Is(err, session.ErrSelf) {
			t.Errorf("dialling ourselves: got %v, want errSelf", err)
		}
	})
}

// bothNodes starts two nodes with both transports, between whom packets to one port
// of the first get lost.
func bothNodes(t *testing.T, filtered int) (robot, pc *Endpoint) {
	robot, pc, _ = nodesOnTestnet(t, filtered)
	return robot, pc
}

// nodesOnTestnet is bothNodes, with their network.
func nodesOnTestnet(t *testing.T, filtered int) (robot, pc *Endpoint, n *testnet.Network) {
	n = testnet.NewNetwork(1)
	key := trust.NewKey()
	params, err := testnet.ParseParams("delay=10ms")
	if err != nil {
		t.Fatal(err)
	}
	start := func(name string) *Endpoint {
		host := n.Host(name, params)
		var conns []net.PacketConn
		for _, port := range []int{8076, 8077} {
			conn, err := host.Listen(port)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, filterConn{conn, filtered})
		}
		e, err := Listen(conns[0], Config{Key: key, Node: nodeOf(name), Host: name, SCTP: conns[1]})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	return start("robot"), start("pc"), n
}

// filterConn loses what is sent to a port.
type filterConn struct {
	net.PacketConn
	port int
}

func (c filterConn) WriteTo(b []byte, to net.Addr) (int, error) {
	if at, err := netip.ParseAddrPort(to.String()); err == nil && int(at.Port()) == c.port {
		return len(b), nil
	}
	return c.PacketConn.WriteTo(b, to)
}

// Whatever part of the handshake gets lost.
func TestDialSurvivesLoss(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			for seed := range need.LongOr(uint64(30), 10) {
				inBubble(tr.listen, func(t *testing.T, l *lab) {
					robot, pc := l.node(t, "robot"), l.node(t, "pc")
					l.air.dice = rand.New(rand.NewPCG(seed, 0))
					l.air.lose(0.2)
					accepted, dialled := l.join(t, robot, pc)
					l.air.lose(0)
					controlWorks(t, accepted, dialled)
					controlWorks(t, dialled, accepted)
				})(t)
			}
		})
	}
}
