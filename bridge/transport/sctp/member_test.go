package sctp

import (
	"context"
	"encoding/binary"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/sctp"

	"achbridge/bridge/transport/session"
	"achbridge/testnet/await"
)

// member is a hostile program with the network's key, which builds its SCTP packets itself.
type member struct {
	conn  *dtls.Conn
	robot *session.Session // its end
	tag   uint32           // the robot's
	tsn   uint32           // TSN of our next DATA chunk
	next  uint32           // first TSN of the robot
}

// newMember makes a session with robot. It also returns the robot's end of the session.
func newMember(t *testing.T, l *lab, robot *node) (*member, *session.Session) {
	t.Helper()
	s := newUnknownPeer(t, l, "10.0.1.1:999")
	path := s.path(t, robot)
	path.isKnown.Store(true) // no allowance
	options := append(s.options,
		dtls.WithCertificates(l.certificate(t, "odd")),
		dtls.WithConnectionIDGenerator(func() []byte { return path.id[:] }))
	conn, err := dtls.ClientWithOptions(path, robot.addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		t.Fatal(err)
	}
	init, err := sctp.GenerateOutOfBandToken(associationOptions(conn, wideMTU)...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(append([]byte{session.WelcomeByte}, init...)); err != nil {
		t.Fatal(err)
	}
	received, err := readHello(ctx, conn, patience)
	if err != nil {
		t.Fatal(err)
	}
	h, ok := parseHello(received)
	if !ok {
		t.Fatalf("hello: got %x", received)
	}
	theirs := h.init
	accepted := await.Receive(t, "the session", robot.arrivals)
	go io.Copy(io.Discard, conn)
	return &member{
		conn: conn, robot: accepted, tag: binary.BigEndian.Uint32(theirs[4:]), tsn: binary.BigEndian.Uint32(init[16:]),
		next: binary.BigEndian.Uint32(theirs[16:]),
	}, accepted
}

// send sends one packet of chunks, and waits until the robot has processed the packet.
func (m *member) send(chunks ...[]byte) {
	if m.robot.Err() != nil {
		return // packets to an ended session take time and test nothing
	}
	b := []byte{firstByte, 5000 & 0xff, firstByte, 5000 & 0xff}
	b = binary.BigEndian.AppendUint32(b, m.tag)
	b = binary.BigEndian.AppendUint32(b, 0)
	for _, c := range chunks {
		b = append(b, c...)
		b = append(b, make([]byte, -len(c)&3)...)
	}
	m.conn.Write(b) // fails once the session has ended
	time.Sleep(100 * time.Microsecond)
}

// chunk lays out an SCTP chunk.
func chunk(typ, flags byte, body ...byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{typ, flags}, uint16(4+len(body))), body...)
}

// number returns a 32-bit field.
func number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

const whole = dataBegins | dataEnds

// data lays out the next DATA chunk.
func (m *member) data(flags byte, stream, ssn uint16, format uint32, b ...byte) []byte {
	body := append(number(m.tsn), number(uint32(stream)<<16|uint32(ssn))...)
	m.tsn++
	return chunk(chunkData, flags, append(append(body, number(format)...), b...)...)
}

// many makes chunks to fill a packet.
func many(n int, f func() []byte) (chunks [][]byte) {
	for range n {
		chunks = append(chunks, f())
	}
	return chunks
}

// A member may be a faulty or malicious program. It may lose its own session, but must do no
// other harm.
func TestMisbehavingMemberHarmsOnlyItself(t *testing.T) {
	sack := func(cumulative, window uint32, gaps ...byte) []byte {
		body := append(number(cumulative), number(window)...)
		return chunk(chunkSack, 0, append(append(body, 0, byte(len(gaps)/4), 0, 0), gaps...)...)
	}
	for _, c := range []struct {
		name string
		do   func(m *member, robot *session.Session)
		ends bool // the packets end the session at once
	}{
		{"AcknowledgesWhatWasNeverSent", func(m *member, _ *session.Session) {
			for i := range uint32(1000) {
				m.send(sack(m.next+i*1_000_003, 1<<20, 0, 1, 0xff, 0xff), sack(m.next-1, 1<<31, 0xff, 0xff, 0, 1))
			}
		}, false},
		{"SkipsHalfOfAllNumbers", func(m *member, _ *session.Session) {
			for i := range uint32(1000) {
				m.send(chunk(chunkForward, 0, number(m.tsn+i*0x7ffffff0)...))
			}
		}, false},
		{"UsesEveryStreamNumber", func(m *member, _ *session.Session) {
			for i := range uint16(2000) {
				n := i * 30
				m.send(many(30, func() []byte { n++; return m.data(whole, n, 0, streamFormat, 'x') })...)
			}
		}, true},
		{"SendsPartsOfDatagrams", func(m *member, _ *session.Session) {
			for range 3000 {
				m.send(many(50, func() []byte { return m.data(dataUnordered|dataBegins, datagramNumber, 0, datagramFormat, 'x') })...)
			}
		}, true},
		{"SendsDatagramsInOrder", func(m *member, _ *session.Session) {
			m.send(m.data(whole, datagramNumber, 7, datagramFormat, 'x'))
		}, true},
		{"LeavesOutTheFirstMessage", func(m *member, _ *session.Session) {
			for i := range 3000 {
				ssn := uint16(50 * i)
				m.send(many(50, func() []byte { ssn++; return m.data(whole, firstNumber, ssn, streamFormat, 'x') })...)
			}
		}, true},
		{"LeavesOutTheFirstMessageOfEveryStream", func(m *member, _ *session.Session) {
			for i := range 3000 {
				stream := uint16(0)
				m.send(many(50, func() []byte {
					stream++
					return m.data(whole, firstNumber+(stream+uint16(i))%session.MaxStreams, uint16(i+1), streamFormat, 'x')
				})...)
			}
		}, true},
		{"ListensToNoWord", func(m *member, robot *session.Session) {
			go func() {
				for {
					in, err := robot.AcceptStream(context.Background())
					if err != nil {
						return
					}
					in.Read(make([]byte, 1))
				}
			}()
			m.send(sack(m.next-1, 0))
			for i := range 20000 {
				m.send(m.data(whole, wordsNumber, uint16(i), wordFormat, appendWord(nil, word{wordOpen, 1, uint32(byte(i))})...),
					m.data(whole, firstNumber, uint16(i), streamCutFormat, byte(i)))
			}
		}, true},
		{"WritesBeyondItsCredit", func(m *member, _ *session.Session) {
			for i := range uint16(200) {
				m.send(m.data(whole, controlNumber, i, streamFormat, make([]byte, 1000)...))
			}
		}, true},
		{"AsksForResets", func(m *member, _ *session.Session) {
			for i := range uint32(2000) { // outgoing reset request for the control stream, far ahead
				body := append([]byte{0, 13, 0, 18}, number(i)...)
				body = append(append(body, number(0)...), number(m.tsn+1_000_000)...)
				m.send(chunk(130, 0, append(body, 0, 0, 0, 0)...))
			}
		}, false},
		{"BeginsAnewInTheMiddle", func(m *member, _ *session.Session) {
			for range 1000 {
				init := append(append(number(1), number(1<<20)...), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1)
				m.send(chunk(1, 0, init...), chunk(2, 0, init...), chunk(10, 0, make([]byte, 32)...), chunk(11, 0))
			}
		}, false},
		{"BeatsWithoutEnd", func(m *member, _ *session.Session) {
			for range 2000 {
				m.send(chunk(chunkHeartbeat, 0, append([]byte{0, 1, 4, 0x4c}, make([]byte, 1096)...)...))
			}
		}, false},
		{"ShutsDown", func(m *member, _ *session.Session) { m.send(chunk(7, 0, number(m.next-1)...)) }, false},
	} {
		t.Run(c.name, withUnknownPeer(func(t *testing.T, l *lab, robotEnd *node) {
			honest, _ := l.join(t, robotEnd, l.node(t, "planner", "3"))
			m, robot := newMember(t, l, robotEnd)
			before := heap()
			c.do(m, robot)
			time.Sleep(time.Second)
			synctest.Wait()
			if grown := int64(heap()) - int64(before); grown > 16<<20 {
				t.Errorf("memory: grew by %d KiB, want at most 16384", grown>>10)
			}
			if c.ends && robot.Err() == nil {
				t.Errorf("session: still up, want its end")
			}
			if err := honest.Err(); err != nil {
				t.Errorf("another member's session: %v", err)
			}
			robot.Close("")
			honest.Close("")
		}))
	}
}

// heap returns the bytes of heap memory in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
