package sctp

import (
	"encoding/binary"
	"time"
)

// SCTP sends some packets too often: FORWARD TSN and SACK.
//
// FORWARD TSN (RFC 3758): pion/sctp counts a datagram without retransmission as abandoned as
// soon as it is sent. It answers each acknowledgement with a FORWARD TSN, which makes the peer
// skip all packets in flight, and which the peer acknowledges at once. On a link with a delay of
// 2 ms that made 9000 packets a second in each direction, a quarter of 20 Mbit/s. A datagram
// that such a packet overtakes is lost. So the tap delays FORWARD TSN for skipDelay, and sends
// it only if the peer misses packets.
//
// SACK: pion/sctp acknowledges every second packet, and at once when one is missing. The layer
// above acknowledges datagrams itself, and on a narrow path that many SACKs use too much of the
// bandwidth. So datagrams are acknowledged every sackPeriod or sackBytes.
//
// ackState has the state of both. The link's mu guards it.
type ackState struct {
	gaps            bool      // the last acknowledgement reported missing packets
	came            time.Time // when the last acknowledgement arrived
	forwardTSNWaits bool      // a FORWARD TSN waits to be sent
	sent            time.Time // when the last FORWARD TSN was sent
	wait            *time.Timer

	bytes    int  // bytes of datagrams that have arrived since our last acknowledgement
	reliable bool // other data has arrived since then
	acked    time.Time
}

const (
	chunkSack    = 3
	chunkForward = 192

	// skipDelay is longer than the usual reordering of packets. There is no hurry: a lost
	// packet reduces the window by its size, but the window is large.
	skipDelay = 30 * time.Millisecond
	// sackPeriod is half of the permitted delay of an acknowledgement.
	sackPeriod = 100 * time.Millisecond
	sackBytes  = minWindow / 16

	// tailSilence is the time without an acknowledgement after which the last packets count as
	// lost. An acknowledgement may be delayed by 200 ms.
	tailSilence = 300 * time.Millisecond
)

// isForward reports whether a packet has only a FORWARD TSN.
func isForward(packet []byte) bool {
	for typ := range chunks(packet) {
		return typ == chunkForward
	}
	return false
}

// isSack reports whether a packet only acknowledges.
func isSack(packet []byte) bool {
	for typ, chunk := range chunks(packet) {
		return typ == chunkSack && commonHeader+(len(chunk)+3)&^3 >= len(packet)
	}
	return false
}

// arrived records a DATA chunk from the peer.
func (l *link) arrived(chunk []byte) {
	if len(chunk) < dataHeader {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forward.bytes += len(chunk)
	if binary.BigEndian.Uint16(chunk[8:]) != datagramNumber {
		l.forward.reliable = true
	}
}

// needless reports whether an acknowledgement can be omitted, since a later one suffices.
func (l *link) needless(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.forward
	if !f.reliable && f.bytes < sackBytes && now.Sub(f.acked) < sackPeriod {
		return true
	}
	f.reliable, f.bytes, f.acked = false, 0, now
	return false
}

// acknowledged records a SACK chunk from the peer.
func (l *link) acknowledged(chunk []byte, now time.Time) {
	if len(chunk) < 16 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forward.gaps, l.forward.came = binary.BigEndian.Uint16(chunk[12:]) > 0, now
}

// skip sends a FORWARD TSN later, if one is needed then.
func (l *link) skip(packet []byte, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.forward
	missed := f.gaps || now.Sub(f.came) > tailSilence
	if !missed || f.forwardTSNWaits || l.cause != nil || now.Sub(f.sent) < l.trip.smoothed {
		return
	}
	f.forwardTSNWaits = true
	word := append([]byte(nil), packet...)
	f.wait = time.AfterFunc(skipDelay, func() {
		l.mu.Lock()
		f.forwardTSNWaits, f.sent = false, time.Now()
		over := l.cause != nil
		l.mu.Unlock()
		if !over {
			l.write(word, nil)
		}
	})
}
