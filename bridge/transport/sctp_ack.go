package transport

import (
	"encoding/binary"
	"time"
)

// What SCTP says more often than is of use, in packets of its own.
//
// pion/sctp takes a datagram that is never sent again for abandoned as soon as it is
// sent. To each acknowledgement it answers that the peer should skip all that is
// under way (FORWARD TSN, RFC 3758), to which the peer answers at once: 9000 times a
// second each way on a link of 2 ms, which took a quarter of 20 Mbit/s. And what
// the network lets be overtaken by that word is lost. So the tap keeps the word back
// unless the peer misses something, and then for skipDelay.
//
// It also acknowledges every second packet, at once where one is missing. For
// datagrams, of which the layer above keeps account, that is too much of a narrow
// path: they are acknowledged every sackPeriod or sackBytes.
//
// sctpForward is what decides so, under the link's mu.
type sctpForward struct {
	gaps bool      // in the last acknowledgement
	came time.Time // that one
	held bool      // a word waits to be sent
	sent time.Time // the last word
	wait *time.Timer

	bytes    int  // of datagrams that have come since the last acknowledgement
	reliable bool // and something else has
	acked    time.Time
}

const (
	chunkSack    = 3
	chunkForward = 192

	// skipDelay is more than packets are overtaken by. There is no hurry: the
	// window, of which a lost packet takes its size, is large.
	skipDelay = 30 * time.Millisecond
	// sackPeriod is half of the delay that any acknowledgement may have.
	sackPeriod = 100 * time.Millisecond
	sackBytes  = sctpWindow / 16

	// tailSilence is without what acknowledgement the last packets are taken for lost:
	// one may be late by 200 ms.
	tailSilence = 300 * time.Millisecond
)

// isForward reports whether a packet is only to make the peer skip.
func isForward(packet []byte) bool {
	for typ := range chunks(packet) {
		return typ == chunkForward
	}
	return false
}

// isSack reports whether a packet only acknowledges.
func isSack(packet []byte) bool {
	for typ, chunk := range chunks(packet) {
		return typ == chunkSack && sctpHeader+(len(chunk)+3)&^3 >= len(packet)
	}
	return false
}

// arrived notes a DATA chunk from the peer.
func (l *sctpLink) arrived(chunk []byte) {
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

// needless reports whether an acknowledgement can wait for the next.
func (l *sctpLink) needless(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.forward
	if !f.reliable && f.bytes < sackBytes && now.Sub(f.acked) < sackPeriod {
		return true
	}
	f.reliable, f.bytes, f.acked = false, 0, now
	return false
}

// acknowledged notes a SACK chunk.
func (l *sctpLink) acknowledged(chunk []byte, now time.Time) {
	if len(chunk) < 16 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forward.gaps, l.forward.came = binary.BigEndian.Uint16(chunk[12:]) > 0, now
}

// skip sends a word to skip later, if there is any need for it.
func (l *sctpLink) skip(packet []byte, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.forward
	missed := f.gaps || now.Sub(f.came) > tailSilence
	if !missed || f.held || l.cause != nil || now.Sub(f.sent) < l.srtt {
		return
	}
	f.held = true
	word := append([]byte(nil), packet...)
	f.wait = time.AfterFunc(skipDelay, func() {
		l.mu.Lock()
		f.held, f.sent = false, time.Now()
		over := l.cause != nil
		l.mu.Unlock()
		if !over {
			l.write(word, nil)
		}
	})
}
