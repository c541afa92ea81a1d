package sctp

import (
	"encoding/binary"
	"errors"
	"sync/atomic"

	"achbridge/bridge/transport/session"
)

// backlog limits the number of a peer's messages that wait in the association. The library
// limits only bytes, and searches all waiting chunks of a stream for each chunk that arrives.
// 100000 chunks of one byte would use a whole CPU, and a hundred times their size in memory.
//
// A peer that keeps the protocol never fragments a message, and sends only datagrams
// unordered. Ordered messages wait only behind a lost one, so no more can wait than may be in
// flight at once.
type backlog struct {
	total   atomic.Int32 // messages that have arrived and were not read
	waiting [numbers]atomic.Int32
}

const (
	// numbers is the number of stream numbers.
	numbers = firstNumber + session.MaxStreams
	// maxWaiting is the congestion window of all streams, in messages of 32 bytes.
	// maxWaitingEach is the credit of one stream in such messages.
	maxWaiting     = maxCwnd / 32
	maxWaitingEach = session.StreamWindow / 32
	// maxWords is the maximum number of unacknowledged bytes of words, more than all streams can need at
	// once.
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
		return true // the library rejects it
	}
	flags, number := chunk[1], binary.BigEndian.Uint16(chunk[8:])
	if number >= numbers || flags&dataBegins == 0 || flags&dataEnds == 0 {
		return false
	}
	if number == datagramNumber {
		return flags&dataUnordered != 0 // an unfragmented, unordered message does not wait
	}
	return flags&dataUnordered == 0 && b.waiting[number].Add(1) <= maxWaitingEach && b.total.Add(1) <= maxWaiting
}

// read records that a message was read from the association.
func (b *backlog) read(number uint16) {
	b.total.Add(-1)
	b.waiting[number].Add(-1)
}

// acknowledge handles a SACK of ours. A SACK with the whole window shows that nothing waits. So
// the counts restart at zero, regardless of duplicate and dropped messages.
func (b *backlog) acknowledge(chunk []byte) {
	if len(chunk) < 12 || binary.BigEndian.Uint32(chunk[8:]) != receiveBuffer || b.total.Swap(0) == 0 {
		return
	}
	for i := range b.waiting {
		b.waiting[i].Store(0)
	}
}
