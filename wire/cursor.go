package wire

import (
	"encoding/binary"
	"errors"
)

var (
	errShort    = errors.New("cut short")
	errOverlong = errors.New("varint longer than needed")
	errVarint   = errors.New("varint longer than 64 bits")
)

// cursor reads a datagram from front to back. It keeps the first error and the
// name of the field that caused it. Every later read returns zero.
type cursor struct {
	rest  []byte
	field string
	err   error
}

// uvarint reads a number between least and most.
func (c *cursor) uvarint(field string, least, most uint64) uint64 {
	if c.err != nil {
		return 0
	}
	v, n, err := uvarint(c.rest, least, most)
	if err != nil {
		return c.fail(field, err)
	}
	c.rest = c.rest[n:]
	return v
}

// u8 reads a byte, which must be at most most.
func (c *cursor) u8(field string, most int) int {
	b := c.bytes(field, 1)
	if b == nil {
		return 0
	}
	if int(b[0]) > most {
		c.fail(field, errOutside(int(b[0]), 0, most))
		return 0
	}
	return int(b[0])
}

func (c *cursor) u32(field string) uint32 {
	b := c.bytes(field, 4)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func (c *cursor) u64(field string) uint64 {
	b := c.bytes(field, 8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// bytes returns the next n bytes without copying them, or nil if there are fewer.
func (c *cursor) bytes(field string, n int) []byte {
	if c.err != nil {
		return nil
	}
	if n > len(c.rest) {
		c.fail(field, errShort)
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

// fail records err unless there is an earlier error. It always returns 0, for use in a return statement.
func (c *cursor) fail(field string, err error) uint64 {
	if c.err == nil {
		c.field, c.err = field, err
	}
	return 0
}

// uvarint reads a number between least and most. It returns the number and its length in bytes.
func uvarint(b []byte, least, most uint64) (v uint64, n int, err error) {
	v, n = binary.Uvarint(b)
	switch {
	case n == 0:
		err = errShort
	case n < 0:
		err = errVarint
	case n > 1 && b[n-1] == 0:
		err = errOverlong
	case v < least || v > most:
		err = errOutside(v, least, most)
	}
	return v, n, err
}

// uvarintSize returns how many bytes binary.AppendUvarint appends for v.
func uvarintSize(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}
