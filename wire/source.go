package wire

import (
	"encoding/binary"
	"io"
)

// source reads fields from a stream. Like a cursor, it keeps the first error and the name of its
// field, and every later read returns zero. It never reads ahead of the fields.
type source struct {
	in      io.ByteReader
	readAny bool // at least one byte was read
	field   string
	err     error
}

// uvarint reads a number between least and most.
func (s *source) uvarint(field string, least, most uint64) uint64 {
	// One byte more than a varint may have, to detect one that is too long.
	var b [binary.MaxVarintLen64 + 1]byte
	n := 0
	for n == 0 || n < len(b) && b[n-1] >= 0x80 {
		b[n] = s.u8(field)
		n++
	}
	if s.err != nil {
		return 0
	}
	v, _, err := uvarint(b[:n], least, most)
	if err != nil {
		s.fail(field, err)
		return 0
	}
	return v
}

func (s *source) u64(field string) uint64 {
	var b [8]byte
	for i := range b {
		b[i] = s.u8(field)
	}
	return binary.BigEndian.Uint64(b[:])
}

func (s *source) u8(field string) byte {
	if s.err != nil {
		return 0
	}
	b, err := s.in.ReadByte()
	if err != nil {
		s.fail(field, s.inside(err))
		return 0
	}
	s.readAny = true
	return b
}

// inside turns io.EOF into io.ErrUnexpectedEOF if at least one byte was read.
func (s *source) inside(err error) error {
	if err == io.EOF && s.readAny {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fail records err unless it is nil or there is an earlier error.
func (s *source) fail(field string, err error) {
	if s.err == nil && err != nil {
		s.field, s.err = field, err
	}
}
