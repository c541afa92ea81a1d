package transport

import (
	"crypto/tls"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

// ticketCounter is a dialler's session cache that counts the tickets stored in it.
type ticketCounter struct {
	tls.ClientSessionCache
	keptTickets atomic.Int32
}

func (c *ticketCounter) Put(key string, s *tls.ClientSessionState) {
	if s != nil {
		c.keptTickets.Add(1)
	}
	c.ClientSessionCache.Put(key, s)
}

// A peer presents no certificate in a resumed connection, so a host that was revoked meanwhile
// would be accepted. Therefore there are no session tickets, and no early data, which could be
// replayed.
func TestListenerIssuesNoTickets(t *testing.T) {
	inBubble(Listen, func(t *testing.T, l *lab) {
		robot := l.node(t, "robot")
		s := newUnknownPeer(t, l, "10.0.1.1:999", certificateOf(t, l.keys[0], trust.Peer{Node: nodeOf("pc"), Host: "pc"}))
		tickets := &ticketCounter{ClientSessionCache: tls.NewLRUClientSessionCache(8)}
		s.tls.ClientSessionCache, s.tls.ServerName = tickets, "robot"
		for range 2 {
			conn, err := s.DialEarly(t.Context(), robot.localAddr(), s.tls, s.conf)
			if err != nil {
				t.Fatal(err)
			}
			if err := askForWelcome(t, conn); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if state := conn.ConnectionState(); state.Used0RTT || state.TLS.DidResume {
				t.Errorf("connection: early data %t, resumed %t, want neither", state.Used0RTT, state.TLS.DidResume)
			}
			conn.CloseWithError(0, "")
		}
		if got := tickets.keptTickets.Load(); got != 0 {
			t.Errorf("tickets: got %d, want none", got)
		}
	})(t)
}

// A dialler must not keep session tickets either.
func TestDiallerKeepsNoTickets(t *testing.T) {
	inBubble(Listen, func(t *testing.T, l *lab) {
		s := newUnknownPeer(t, l, "10.0.1.1:999", certificateOf(t, l.keys[0], trust.Peer{Node: nodeOf("robot"), Host: "robot"}))
		s.tls.ClientAuth = tls.RequireAnyClientCert
		listener, err := s.Listen(s.tls, s.conf)
		if err != nil {
			t.Fatal(err)
		}
		pc := l.startAt(t, netip.MustParseAddrPort("10.0.0.9:8076"), Config{Key: l.keys[0], Node: nodeOf("pc"), Host: "pc"})
		for range 2 {
			done := make(chan struct{})
			go func() {
				defer close(done)
				conn, err := listener.Accept(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if stream, err := conn.AcceptStream(t.Context()); err != nil {
					t.Error(err)
				} else {
					stream.Write([]byte{session.WelcomeByte})
				}
				time.Sleep(time.Second)
				if conn.ConnectionState().TLS.DidResume {
					t.Error("the dialler resumed")
				}
			}()
			session, err := pc.Dial(t.Context(), Addrs{QUIC: s.Conn.LocalAddr()})
			if err != nil {
				t.Fatal(err)
			}
			<-done
			session.Close("")
		}
	})(t)
}
