package transport

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/testnet"
)

// A path of 1280 bytes, which IPv6 guarantees, must carry all packets.
func TestSessionsFitAPathOf1280Bytes(t *testing.T) {
	for _, c := range []struct {
		name string
		to   func(Addrs) Addrs
		size int
	}{
		{"quic", func(a Addrs) Addrs { return Addrs{QUIC: a.QUIC} }, 1195},
		{"sctp", func(a Addrs) Addrs { return Addrs{SCTP: a.SCTP} }, 1156},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { sessionFits(t, 1280, c.to, c.size) })
		})
	}
}

// Only SCTP works on a path of 576 bytes. A dialler with both protocols must also succeed in
// time.
func TestSCTPFitsAPathOf576Bytes(t *testing.T) {
	for _, c := range []struct {
		name string
		to   func(Addrs) Addrs
	}{
		{"sctp", func(a Addrs) Addrs { return Addrs{SCTP: a.SCTP} }},
		{"auto", func(a Addrs) Addrs { return a }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { sessionFits(t, 576, c.to, 472) })
		})
	}
	t.Run("quic", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			robot, pc, _ := nodesOnPath(t, 576)
			_, err := pc.Dial(t.Context(), Addrs{QUIC: robot.LocalAddrs().QUIC})
			if !errors.Is(err, session.ErrSilent) || !strings.Contains(err.Error(), "packets of 1232 bytes") {
				t.Errorf("dial: got %v, want ErrSilent, and what QUIC needs", err)
			}
		})
	})
}

func nodesOnPath(t *testing.T, mtu int) (robot, pc *Endpoint, n *testnet.Network) {
	robot, pc, n = nodesOnTestnet(t, 0)
	if err := n.Change("", "mtu="+strconv.Itoa(mtu)); err != nil {
		t.Fatal(err)
	}
	return robot, pc, n
}

func sessionFits(t *testing.T, mtu int, choose func(Addrs) Addrs, size int) {
	robotEnd, pcEnd, _ := nodesOnPath(t, mtu)
	start := time.Now()
	pc, err := pcEnd.Dial(t.Context(), choose(robotEnd.LocalAddrs()))
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	t.Logf("%s: session after %v, datagrams of %d bytes", pc.Transport(), took, pc.MaxDatagram())
	if took > 2*time.Second {
		t.Errorf("session after %v, want it within 2s", took)
	}
	robot, err := robotEnd.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	controlCarriesAMebibyte(t, &lab{pair: func(*testing.T) (*session.Session, *session.Session) { return robot, pc }})
	carryMebibyte(t, robot, pc)
	for _, d := range [][2]*session.Session{{robot, pc}, {pc, robot}} {
		if got := d[0].MaxDatagram(); got != size {
			t.Errorf("largest datagram: got %d bytes, want %d", got, size)
		}
		for range 50 {
			if err := d[0].SendDatagram(make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			if got, err := receive(t, d[1]); err != nil || len(got) != size {
				t.Fatalf("receive: got %d bytes, %v", len(got), err)
			}
		}
	}
}
