package transport

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
)

// forge sends a packet that says it comes from somewhere.
func (l *lab) forge(from, to net.Addr, b []byte) {
	l.air.SendPacket(simnet.Packet{From: from, To: to, Data: b})
}

// linkOf returns the link of the only session that a node has.
func linkOf(e *Endpoint) *sctpLink {
	p := e.sctp.(*sctpProtocol)
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		return l
	}
	return nil
}

// record lays out a DTLS record.
func record(typ byte, epoch uint16, id, content []byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{typ, 0xfe, 0xfd}, epoch)
	b = append(b, 0, 0, 0, 0, 0xff, 0xff) // a sequence number that is still to come
	b = append(b, id...)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(content))), content...)
}

// Whoever sees the packets of a session knows its addresses and ids, and can send
// what he likes in either end's name.
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
		t.Run(c.name, inBubble(listenOverSCTP, func(t *testing.T, l *lab) {
			robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
			robot, pc := l.join(t, robotEnd, pcEnd)
			robotPath, pcPath := linkOf(robotEnd).path, linkOf(pcEnd).path
			time.Sleep(time.Second)
			sent := 0
			l.air.count(&sent)
			for i := range 20 {
				for _, d := range []struct {
					from, to *Endpoint
					path     *sctpPath
					kind     byte
				}{{pcEnd, robotEnd, robotPath, kindToListener}, {robotEnd, pcEnd, pcPath, kindToDialler}} {
					b := c.records(d.path.id[:])
					b[10] = byte(i) // of the sequence number: not a replay
					if c.shim {
						b = append(appendShim(nil, shim{kind: d.kind, attempt: pcPath.key.attempt}), b...)
					}
					l.forge(d.from.localAddr(), d.to.localAddr(), b)
				}
			}
			time.Sleep(3 * oneWay)
			l.air.count(nil)
			if sent > 40+4 { // and what heartbeats there are
				t.Errorf("packets: got %d, want no answer to the 40 forged ones", sent)
			}
			time.Sleep(time.Second)
			if robot.Err() != nil || pc.Err() != nil {
				t.Fatalf("err: got %v and %v, want none", robot.Err(), pc.Err())
			}
			for _, d := range [][2]*Session{{robot, pc}, {pc, robot}} {
				if err := d[0].SendDatagram([]byte("hello")); err != nil {
					t.Fatal(err)
				}
				if got, err := receive(t, d[1]); err != nil || string(got) != "hello" {
					t.Errorf("receive: got %q, %v", got, err)
				}
			}
		}))
	}
}

// Who saw a session end knows its ids for as long as the goodbye is repeated.
func TestGoodbyeIsNotAimedAtAVictim(t *testing.T) {
	inBubble(listenOverSCTP, func(t *testing.T, l *lab) {
		robotEnd, pcEnd := l.node(t, "robot"), l.node(t, "pc")
		robot, _ := l.join(t, robotEnd, pcEnd)
		id := linkOf(robotEnd).path.id
		robot.Close(strings.Repeat("because ", 50))
		time.Sleep(time.Second)
		victim := &net.UDPAddr{IP: net.IPv4(10, 0, 9, 9), Port: 53}
		l.air.lie(victim, victim) // counts what is sent to it
		sent := 0
		l.air.count(&sent)
		for range 100 {
			l.forge(victim, robotEnd.localAddr(), record(recordCID, 1, id[:], make([]byte, 30)))
			time.Sleep(goodbyePeriod / 10)
		}
		if _, to := l.air.lies(); to != 0 {
			t.Errorf("victim: got %d bytes, want none", to)
		}
		if sent -= 100; sent < 1 || sent > 10 {
			t.Errorf("goodbyes: got %d for 100 packets, want 1 to 10", sent)
		}
	})(t)
}
