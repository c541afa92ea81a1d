package transport

import (
	"context"
	"net/netip"
	"testing"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/trust"
)

// benchPair is a session over loopback sockets.
func benchPair(b *testing.B) (robot, pc *session.Session) {
	key := trust.NewKey()
	var ends []*Endpoint
	for _, host := range []string{"robot", "pc"} {
		e, err := Listen(bindLoopback(b, netip.AddrPort{}), Config{Key: key, Node: nodeOf(host), Host: host})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { e.Close() })
		ends = append(ends, e)
	}
	pc, err := ends[1].Dial(context.Background(), ends[0].LocalAddrs())
	if err != nil {
		b.Fatal(err)
	}
	robot, err = ends[0].Accept(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	return robot, pc
}

// BenchmarkDatagramRoundTrip is one datagram of an IMU's size at a time.
func BenchmarkDatagramRoundTrip(b *testing.B) {
	robot, pc := benchPair(b)
	go func() {
		for {
			d, err := pc.ReceiveDatagram(context.Background())
			if err != nil {
				return
			}
			pc.SendDatagram(d)
		}
	}()
	frame := make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		if err := robot.SendDatagram(frame); err != nil {
			b.Fatal(err)
		}
		if _, err := robot.ReceiveDatagram(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBeforeEachSend measures the calls of a send loop before it fills a datagram.
func BenchmarkBeforeEachSend(b *testing.B) {
	robot, _ := benchPair(b)
	b.ReportAllocs()
	for b.Loop() {
		if robot.Window() < robot.MaxDatagram() {
			b.Fatal("no room in a fresh session")
		}
	}
}
