package bridge

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
)

// Somebody without the key floods the port with bytes of no meaning and with
// handshakes of another network.
func TestStrangersFloodHarmsNobody(t *testing.T) {
	for _, over := range []string{overQUIC, overSCTP} {
		t.Run(over, func(t *testing.T) {
			inSiegeOver(t, over, func(s *siege) {
				h := s.host("stranger", siegeWire)
				conns := make([]net.PacketConn, 3)
				for i := range conns {
					conn, err := h.net.Listen(port + i)
					if err != nil {
						t.Fatal(err)
					}
					conns[i] = conn
				}
				end, err := transport.Listen(conns[0], transport.Config{Key: trust.NewKey(), Node: h.id, Host: h.name, SCTP: conns[1]})
				if err != nil {
					t.Fatal(err)
				}
				defer end.Close()
				ctx, cancel := context.WithCancel(s.t.Context())
				defer cancel()
				held := s.withstand(5*time.Second, func() {
					var work sync.WaitGroup
					until := time.Now().Add(4 * time.Second)
					for range 4 {
						work.Go(func() {
							for time.Now().Before(until) {
								dialling, stop := context.WithTimeout(ctx, time.Second)
								if session, err := end.Dial(dialling, s.door()); err == nil {
									session.Close("it let a stranger in")
									t.Error("a stranger has a session")
								}
								stop()
								time.Sleep(100 * milli)
							}
						})
					}
					random := rand.NewChaCha8([32]byte{1})
					for time.Now().Before(until) {
						b := make([]byte, 1+random.Uint64()%1200)
						random.Read(b)
						b[0] = [...]byte{b[0], 0xc3, 22}[random.Uint64()%3] // anything, a long header of QUIC, a handshake of DTLS
						conns[2].WriteTo(b, s.robot.addr())
						time.Sleep(milli)
					}
					work.Wait()
				})
				if n := len(s.robot.node.Status().Links); n != 1 {
					t.Errorf("the robot has %d links, want that to the PC alone", n)
				}
				if held > 16<<20 {
					t.Errorf("%d MiB held, want 16 at most", held>>20)
				}
				if lines := s.robot.said("\n"); lines > 40 {
					t.Errorf("%d lines logged, want one or two a second", lines)
				}
			})
		})
	}
}
