package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Limits of a datagram.
const (
	MaxDatagram = 1200 // bytes
	MaxHeader   = 18   // maximum number of bytes that AppendHeader appends
)

// Header begins every datagram.
type Header struct {
	Number uint64        // packet number, from 1, counted per link and direction
	Sent   time.Duration // send time, since the sender's node started
}

// AppendHeader appends h to dst. h.Number must be 1 … 2^63-1, h.Sent not
// negative, or the peer refuses the datagram.
func AppendHeader(dst []byte, h Header) []byte {
	dst = binary.AppendUvarint(dst, h.Number)
	return binary.AppendUvarint(dst, uint64(h.Sent))
}

// Kind is the kind of an entry in a datagram.
type Kind uint8

// The kinds of entries in version 1.
const (
	KindFrame    Kind = 1
	KindPart     Kind = 2
	KindFeedback Kind = 3
	KindMark     Kind = 4
)

// Entry is one entry of a datagram. Kind selects the one of Frame, Part, Mark and Feedback() that
// is set. Data of a Frame or Part aliases the bytes given to Parse.
type Entry struct {
	Kind  Kind
	Frame Frame
	Part  Part
	Mark  Mark

	feedback cursor
}

// Datagram is a parsed datagram. Parse has checked all of its entries.
type Datagram struct {
	Header
	rest []byte
}

// Parse checks a whole datagram, so that Next cannot fail. The returned datagram and its entries
// alias b. An error names the invalid entry and field; discard all of such a datagram.
func Parse(b []byte) (Datagram, error) {
	if len(b) > MaxDatagram {
		return Datagram{}, fmt.Errorf("datagram: %w bytes", errOutside(len(b), 2, MaxDatagram))
	}
	c := cursor{rest: b}
	d := Datagram{Header: Header{
		Number: c.uvarint("packet number", 1, math.MaxInt64),
		Sent:   time.Duration(c.uvarint("send time", 0, math.MaxInt64)),
	}}
	if c.err != nil {
		return Datagram{}, fmt.Errorf("datagram: %s: %w", c.field, c.err)
	}
	d.rest = c.rest
	var e Entry
	for n := 1; len(c.rest) > 0; n++ {
		e.parse(&c, d.Sent)
		if c.err != nil {
			return Datagram{}, fmt.Errorf("datagram: entry %d: %s: %w", n, c.field, c.err)
		}
	}
	return d, nil
}

// Next returns the next entry; ok is false after the last one.
func (d *Datagram) Next() (e Entry, ok bool) {
	if len(d.rest) == 0 {
		return e, false
	}
	c := cursor{rest: d.rest}
	e.parse(&c, d.Sent)
	d.rest = c.rest
	return e, true
}

func (e *Entry) parse(c *cursor, sent time.Duration) {
	b := byte(c.u8("type", math.MaxUint8))
	e.Kind = Kind(b & kindBits)
	switch {
	case e.Kind == KindFrame:
		e.Frame = parseFrame(c, b, sent)
	case e.Kind == KindPart:
		e.Part = parsePart(c, b, sent)
	case b == byte(KindFeedback):
		e.feedback = *c
		parseFeedback(c)
	case b == byte(KindMark):
		e.Mark = parseMark(c)
	default:
		c.fail("type", fmt.Errorf("%#02x is unknown", b))
	}
}

// Feedback returns the feedback of an entry of KindFeedback. Do not call it for other kinds.
func (e *Entry) Feedback() Feedback {
	c := e.feedback
	return parseFeedback(&c)
}
