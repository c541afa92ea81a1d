package transport

import (
	"net"
	"testing"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/testnet/await"
)

// After a NAT has lost its mapping, or a change of the wireless network, a node suddenly sends
// from a new address and no longer receives at the old one.
func movedPeerKeepsSession(t *testing.T, l *lab) {
	robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
	robot, pc := l.join(t, robotEnd, pcEnd)
	time.Sleep(time.Second)
	for port := range 3 {
		l.air.translate(pcEnd.localAddr(), &net.UDPAddr{IP: net.IPv4(192, 0, 2, byte(1+port)), Port: 40000 + port})
		moved := time.Now()
		if err := pc.SendDatagram([]byte("from elsewhere")); err != nil {
			t.Fatal(err)
		}
		if got, err := receive(t, robot); err != nil || string(got) != "from elsewhere" {
			t.Fatalf("receive: got %q, %v", got, err)
		}
		time.Sleep(4*oneWay - time.Since(moved)) // the new address is verified by then
		if err := robot.SendDatagram([]byte("to elsewhere")); err != nil {
			t.Fatal(err)
		}
		if got, err := receive(t, pc); err != nil || string(got) != "to elsewhere" {
			t.Fatalf("receive: got %q, %v", got, err)
		}
		if took := time.Since(moved); took > 5*oneWay {
			t.Errorf("reached at its new address after %v, want 5 one-way delays", took)
		}
		want := l.air.outside(pcEnd.localAddr()).String()
		if got := robot.RemoteAddr().String(); got != want {
			t.Errorf("remote address: got %s, want %s", got, want)
		}
		time.Sleep(2 * time.Second)
	}
	controlWorks(t, robot, pc)
}

// If a node is silent when its address changes, the peer learns the new address from its
// keep-alives.
func quietMovedPeerKeepsSession(t *testing.T, l *lab) {
	robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
	robot, pc := l.join(t, robotEnd, pcEnd)
	time.Sleep(time.Second)
	l.air.translate(pcEnd.localAddr(), &net.UDPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 40000})
	want := l.air.outside(pcEnd.localAddr()).String()
	moved := time.Now()
	await.True(t, "the robot follows", func() bool { return robot.RemoteAddr().String() == want })
	if took := time.Since(moved); took > session.KeepAlive+overdue {
		t.Errorf("followed after %v, want %v", took, session.KeepAlive+overdue)
	}
	controlWorks(t, robot, pc)
}

// A member may lie about its address, or an attacker may send copies of its packets from
// another address, faster than the packets themselves. Our packets must then not flood the
// host at that address, and must still reach the member.
func liarCannotAimAtVictim(t *testing.T, l *lab) {
	robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
	robot, pc := l.join(t, robotEnd, pcEnd)
	time.Sleep(time.Second)
	victim := &net.UDPAddr{IP: net.IPv4(10, 0, 9, 9), Port: 53}
	l.air.lie(pcEnd.localAddr(), victim)
	arrived := 0
	for range 100 {
		if err := pc.SendDatagram(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		if err := robot.SendDatagram(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		if _, err := receive(t, pc); err == nil {
			arrived++
		}
		time.Sleep(10 * time.Millisecond)
	}
	from, to := l.air.lies()
	if from < 10_000 || to > from || to > 40_000 { // QUIC fills its packets to prove that 1200 bytes pass
		t.Errorf("victim: got %d bytes for %d in its name, of 100000 for the member", to, from)
	}
	if arrived < 100 {
		t.Errorf("datagrams: the member got %d of 100", arrived)
	}
	if robot.Err() != nil || pc.Err() != nil {
		t.Errorf("err: got %v and %v, want both alive", robot.Err(), pc.Err())
	}
}
