package wire

import (
	"cmp"
	"errors"
	"fmt"
)

// Stamp carries the time stamps with which two nodes compare their clocks, as NTP does (RFC 5905
// section 8), if their link has no datagrams. A query has only T1. The peer answers it at once with
// all three times, and the querying node takes T4 when the answer arrives. Times are nanoseconds
// since the start of the node that takes them, of its CLOCK_MONOTONIC. Stamps also keep such a link
// alive: both nodes send a query once a second.
type Stamp struct {
	T1 uint64 `cbor:"1,keyasint,omitempty"` // when the query was sent, by the querying node's clock
	T2 uint64 `cbor:"2,keyasint,omitempty"` // when the query arrived, by the answering node's clock; 0 in a query
	T3 uint64 `cbor:"3,keyasint,omitempty"` // when the answer was sent, by the answering node's clock; 0 in a query
}

// Asks reports whether m is a query.
func (m Stamp) Asks() bool { return m.T2 == 0 }

func (m Stamp) number() uint { return TypeStamp }

func (m Stamp) check() error {
	var err error
	switch {
	case m.T1 == 0:
		err = fmt.Errorf("t1: %w", errNone)
	case m.T2 == 0 && m.T3 != 0:
		err = errors.New("t3: without t2")
	case m.T3 < m.T2:
		err = fmt.Errorf("t3: %d is before t2, %d", m.T3, m.T2)
	}
	return cmp.Or(err, checkTime("t1", m.T1), checkTime("t2", m.T2), checkTime("t3", m.T3))
}
