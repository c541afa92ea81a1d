package wire

import (
	"cmp"
	"errors"
	"fmt"
)

// Stamp compares the clocks of two nodes whose link has no datagrams, by four times as NTP does
// (RFC 5905 section 8). One node asks with T1 alone; the other answers at once with all three, and the
// first notes T4, when the answer has arrived. Times are nanoseconds of the CLOCK_MONOTONIC of
// whoever sets them since its node started. It is also the sign of life of such a link: both nodes
// ask once a second.
type Stamp struct {
	T1 uint64 `cbor:"1,keyasint,omitempty"` // the question was sent, by the clock of whoever asked
	T2 uint64 `cbor:"2,keyasint,omitempty"` // it arrived, by the clock of whoever answers; 0: this is a question
	T3 uint64 `cbor:"3,keyasint,omitempty"` // the answer was sent, by the same clock
}

// Asks reports whether s is a question.
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
