package sctp

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"achbridge/bridge/transport/session"
	"achbridge/testnet/await"
)

// forge sends a packet with a forged source address.
func (l *lab) forge(from, to net.Addr, b []byte) {
	l.SendPacket(simnet.Packet{From: from, To: to, Data: b})
}

// record lays out a DTLS record.
func record(typ byte, epoch uint16, id, content []byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{typ, 0xfe, 0xfd}, epoch)
	b = append(b, 0, 0, 0, 0, 0xff, 0xff) // a sequence number that is still to come
	b = append(b, id...)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(content))), content...)
}

// An observer of a session's packets knows its addresses and ids, and can send any packet with
// the source address of either end.
func TestObserverOnThePathCannotEndASession(t *testing.T) {
	for _, c := range []struct {
		name    string
		records func(id []byte) []byte
		shim    bool // else by the connection id
	}{
		{"Data", func([]byte) []byte { return record(23, 0, nil, []byte("x")) }, true},
		{"Alert", func([]byte) []byte { return record(21, 0, nil, []byte{2, 40}) }, true},
		{"CloseNotify", func([]byte) []byte { return record(21, 0, nil, []byte{1, 0}) }, true},
		{"UnknownType", func([]byte) []byte { return record(99, 0, nil, []byte("x")) }, true},
		{"Handshake", func([]byte) []byte {
			return record(22, 0, nil, []byte{1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0})
		}, true},
		{"CipherChange", func([]byte) []byte { return record(20, 0, nil, []byte{1}) }, true},
		{"PlainWithID", func(id []byte) []byte { return record(recordCID, 0, id, make([]byte, 30)) }, false},
		{"PlainAfterSealed", func(id []byte) []byte {
			return append(record(recordCID, 1, id, make([]byte, 30)), record(23, 0, nil, []byte("x"))...)
		}, false},
		{"SealedForNobody", func(id []byte) []byte { return record(recordCID, 1, id, make([]byte, 60)) }, false},
		{"Truncated", func(id []byte) []byte { return record(recordCID, 1, id, make([]byte, 60))[:60] }, false},
	} {
		t.Run(c.name, inBubble(func(t *testing.T, l *lab) {
			robotEnd, pcEnd := l.node(t, "robot", "1"), l.node(t, "pc", "2")
			robot, pc := l.join(t, robotEnd, pcEnd)
			robotPath, pcPath := robotEnd.link().path, pcEnd.link().path
			time.Sleep(time.Second)
			before := l.sent.Load()
			for i := range 20 {
				for _, d := range []struct {
					from, to *node
					path     *path
					kind     byte
				}{{pcEnd, robotEnd, robotPath, kindToListener}, {robotEnd, pcEnd, pcPath, kindToDialler}} {
					b := c.records(d.path.id[:])
					b[10] = byte(i) // change the sequence number, so that the packet is not a replay
					if c.shim {
						b = append(appendShim(nil, shim{kind: d.kind, attempt: pcPath.key.attempt}), b...)
					}
					l.forge(d.from.addr, d.to.addr, b)
				}
			}
			time.Sleep(3 * oneWay)
			if sent := l.sent.Load() - before; sent > 40+4 { // at most 4 heartbeats in addition
				t.Errorf("packets: got %d, want no answer to the 40 forged ones", sent)
			}
			time.Sleep(time.Second)
			if robot.Err() != nil || pc.Err() != nil {
				t.Fatalf("err: got %v and %v, want none", robot.Err(), pc.Err())
			}
			for _, d := range [][2]*session.Session{{robot, pc}, {pc, robot}} {
				if err := d[0].SendDatagram([]byte("hello")); err != nil {
					t.Fatal(err)
				}
				if got, err := d[1].ReceiveDatagram(await.Context(t)); err != nil || string(got) != "hello" {
					t.Errorf("receive: got %q, %v", got, err)
				}
			}
		}))
	}
}

// An observer of a session's end knows its ids while the goodbye may still be repeated.
func TestRepeatedByesDoNotReachForgedAddress(t *testing.T) {
	inBubble(func(t *testing.T, l *lab) {
		robotEnd, pcEnd := l.node(t, "robot", "1"), l.node(t, "pc", "2")
		robot, _ := l.join(t, robotEnd, pcEnd)
		id := robotEnd.link().path.id
		robot.Close(strings.Repeat("because ", 50))
		time.Sleep(time.Second)
		victim := &net.UDPAddr{IP: net.IPv4(10, 0, 9, 9), Port: 53}
		target := l.bind(t, victim.String())
		before := l.sent.Load()
		for range 100 {
			l.forge(victim, robotEnd.addr, record(recordCID, 1, id[:], make([]byte, 30)))
			time.Sleep(goodbyePeriod / 10)
		}
		target.SetReadDeadline(time.Now())
		if n, _, err := target.ReadFrom(make([]byte, 100)); err == nil {
			t.Errorf("victim: got %d bytes, want none", n)
		}
		if sent := l.sent.Load() - before - 100; sent < 1 || sent > 10 {
			t.Errorf("goodbyes: got %d for 100 packets, want 1 to 10", sent)
		}
	})(t)
}

// An answer counts only if it arrives from the address of the heartbeat and has its nonce.
// Otherwise an attacker on the path could redirect our packets to a victim.
func TestForgedHeartbeatReplyDoesNotMovePeer(t *testing.T) {
	inBubble(func(t *testing.T, l *lab) {
		robotEnd := l.node(t, "robot", "1")
		robot, _ := l.join(t, robotEnd, l.node(t, "pc", "2"))
		link := robotEnd.link()
		home, place, victim := robot.RemoteAddr(), &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4000}, &net.UDPAddr{IP: net.IPv4(10, 0, 9, 9), Port: 53}
		nonce, ok := link.path.ask(place)
		if !ok {
			t.Fatal("nothing is asked")
		}
		answer := func(nonce [nonceSize]byte) []byte { return link.heartbeat(nonce)[commonHeader:] }
		for _, c := range []struct {
			name  string
			chunk []byte
			from  net.Addr
			want  net.Addr
		}{
			{"from a victim", answer(nonce), victim, home},
			{"from home", answer(nonce), home, home},
			{"another answer", answer([nonceSize]byte{1}), place, home},
			{"half an answer", answer(nonce)[:heartbeatNonce+nonceSize/2], place, home},
			{"the answer", answer(nonce), place, place},
			{"the answer again, from a victim", answer(nonce), victim, place},
		} {
			link.path.answered(c.chunk, c.from)
			if got := robot.RemoteAddr(); !session.SameAddr(got, c.want) || !session.SameAddr(link.path.destination(), c.want) {
				t.Errorf("%s: the peer is taken to be at %v, want %v", c.name, got, c.want)
			}
		}
	})(t)
}

// Any host can make a node send a reset, by a packet for a session that never existed. Such a
// reset must not end another session.
func TestResetEndsOnlyItsSession(t *testing.T) {
	inBubble(func(t *testing.T, l *lab) {
		robotEnd, pcEnd := l.node(t, "robot", "1"), l.node(t, "pc", "2")
		_, pc := l.join(t, robotEnd, pcEnd)
		conn := l.bind(t, "10.0.1.1:999")
		defer conn.Close()
		if _, err := conn.WriteTo(record(recordCID, 1, make([]byte, cidSize), make([]byte, 60)), robotEnd.addr); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, _, err := conn.ReadFrom(b)
		if err != nil || n != shimSize || b[1] != kindReset {
			t.Fatalf("answer: got %x, %v, want a reset", b[:n], err)
		}
		l.forge(robotEnd.addr, pcEnd.addr, b[:n])
		time.Sleep(4 * oneWay)
		if err := pc.Err(); err != nil {
			t.Errorf("session: got %v, want it to be there still", err)
		}
	})(t)
}

// A peer of an older version sends no token.
func TestPeerWithoutResetTokenIsNotReset(t *testing.T) {
	inBubble(func(t *testing.T, l *lab) {
		robotEnd := l.node(t, "robot", "1")
		_, robot := newMember(t, l, robotEnd)
		l.forge(robot.RemoteAddr(), robotEnd.addr, appendShim(nil, shim{kind: kindReset}))
		time.Sleep(4 * oneWay)
		if err := robot.Err(); err != nil {
			t.Errorf("session: got %v, want it to be there still", err)
		}
	})(t)
}
