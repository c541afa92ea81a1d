package sctp

import (
	"encoding/binary"
	"errors"
	"sync/atomic"

	"achbridge/bridge/transport/session"
)

// backlog limits how many messages of a peer may wait in the association. The library
// limits only bytes, and searches all that waits in a stream for each chunk that arrives:
// 100000 chunks of a byte each would cost a processor, and a hundred times their bytes.
//
// A peer that keeps the rules never sends a message in parts, and sends only datagrams
// unordered. Ordered messages wait only behind a lost one, so at most as many wait as may be
// under way at once.
type backlog struct {
	total   atomic.Int32 // messages that have arrived and were not read
	waiting [numbers]atomic.Int32
}

const (
	// numbers is how many stream numbers there are.
	numbers = firstNumber + session.MaxStreams
	// maxWaiting is the congestion window of all streams, in messages of 32 bytes, and
	// maxWaitingEach what one has credit for.
	maxWaiting     = maxCwnd / 32
	maxWaitingEach = session.StreamWindow / 32
	// maxWords is how many bytes of words may be unacknowledged: more than any streams
	// give cause for at once.
	maxWords = 64 << 10

	// Flags of a DATA chunk.
	dataEnds      = 1
	dataBegins    = 2
	dataUnordered = 4
)

var errBacklog = errors.New("peer breaks the protocol: too much of what it sends can never be delivered")

// admit reports whether the peer may send a DATA chunk.
func (b *backlog) admit(chunk []byte) bool {
	if len(chunk) < dataHeader {
		return true // the library checks it
	}
	flags, number := chunk[1], binary.BigEndian.Uint16(chunk[8:])
	if number >= numbers || flags&dataBegins == 0 || flags&dataEnds == 0 {
		return false
	}
	if number == datagramNumber {
		return flags&dataUnordered != 0 // it does not wait, being whole
	}
	return flags&dataUnordered == 0 && b.waiting[number].Add(1) <= maxWaitingEach && b.total.Add(1) <= maxWaiting
}

// read notes a message that has been taken out of the association.
func (b *backlog) read(number uint16) {
	b.total.Add(-1)
	b.waiting[number].Add(-1)
}

// acknowledge notes a SACK of ours. A SACK with the whole window shows that nothing waits, so
// the counts restart at zero, whatever arrived twice or was dropped.
func (b *backlog) acknowledge(chunk []byte) {
	if len(chunk) < 12 || binary.BigEndian.Uint32(chunk[8:]) != receiveBuffer || b.total.Swap(0) == 0 {
		return
	}
	for i := range b.waiting {
		b.waiting[i].Store(0)
	}
}
