package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// StreamHeader begins a reliable stream, which carries all frames of one subscription and epoch in
// order. Records follow the header until the end of the stream.
type StreamHeader struct {
	Sub   uint32 // ID of the subscription, from 1
	Epoch uint64 // epoch of the channel
}

// Record is one frame on a reliable stream.
type Record struct {
	Seq      uint64        // the origin's sequence number, greater than the one before
	Captured time.Duration // capture time, since the sender's node started; 0 means unknown
	Missed   uint64        // frames that the ring lost between the previous record and this one
	Codec    Codec         // how Data is compressed
	RawSize  int           // size before compression in bytes, 1 … MaxFrame; 0 with CodecNone
	Data     []byte        // not empty
}

// AppendStreamHeader appends h to dst. The peer refuses a Sub of 0.
func AppendStreamHeader(dst []byte, h StreamHeader) []byte {
	dst = binary.AppendUvarint(dst, uint64(h.Sub))
	return binary.BigEndian.AppendUint64(dst, h.Epoch)
}

// AppendRecordHead appends r without its Data to dst. The caller must send the size bytes of data
// next. A negative capture time counts as unknown. AppendRecordHead does not check the ranges that
// Record documents; the peer does. It also refuses a Missed greater than the gap before Seq.
func AppendRecordHead(dst []byte, r Record, size int) []byte {
	dst = binary.AppendUvarint(dst, r.Seq)
	dst = binary.AppendUvarint(dst, uint64(max(r.Captured, 0)))
	dst = binary.AppendUvarint(dst, r.Missed)
	dst = append(dst, byte(r.Codec))
	if r.Codec != CodecNone {
		dst = binary.AppendUvarint(dst, uint64(r.RawSize))
	}
	return binary.AppendUvarint(dst, uint64(size))
}

// ReadStreamHeader reads a stream's header and not a byte more. It blocks as r.Read does. It
// returns io.EOF for an empty stream and wraps io.ErrUnexpectedEOF if the stream ends inside the
// header.
func ReadStreamHeader(r io.Reader) (StreamHeader, error) {
	s := source{in: oneByte{r}}
	h := StreamHeader{
		Sub:   uint32(s.uvarint("sub", 1, math.MaxUint32)),
		Epoch: s.u64("epoch"),
	}
	if s.err == io.EOF {
		return StreamHeader{}, io.EOF
	}
	if s.err != nil {
		return StreamHeader{}, fmt.Errorf("stream header: %s: %w", s.field, s.err)
	}
	return h, nil
}

// oneByte reads single bytes without reading ahead.
type oneByte struct{ r io.Reader }

func (o oneByte) ReadByte() (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(o.r, b[:])
	return b[0], err
}

// RecordReader reads the records of one stream. It is for one goroutine at a time.
type RecordReader struct {
	in    *bufio.Reader
	limit uint64
	buf   []byte // backs the Data of the current record
	last  uint64 // sequence number of the current record, 0 before the first
	err   error  // the error that ended the stream
}

// NewRecordReader returns a reader of the records in r, a stream whose header has been read. It
// reads ahead up to 4 KiB. Limit, 1 … MaxFrame, is the frame size of the channel: the largest size
// of a record before and after compression, to which the reader's buffer may grow.
func NewRecordReader(r io.Reader, limit int) *RecordReader {
	return &RecordReader{
		in:    bufio.NewReaderSize(r, 4<<10),
		limit: uint64(min(max(limit, 0), MaxFrame)),
	}
}

// Next returns the next record. It blocks as the stream's Read does. Data is valid until the next
// call. Next returns io.EOF if the stream ends between records and wraps io.ErrUnexpectedEOF if it
// ends inside one. Errors name the field. After an error every call returns the same error.
func (r *RecordReader) Next() (Record, error) {
	if r.err != nil {
		return Record{}, r.err
	}
	s := source{in: r.in}
	record := r.head(&s)
	if s.err == nil {
		_, err := io.ReadFull(r.in, record.Data)
		s.fail("data", s.inside(err))
	}
	if s.err != nil {
		r.err = s.err
		if r.err != io.EOF {
			r.err = fmt.Errorf("record: %s: %w", s.field, s.err)
		}
		return Record{}, r.err
	}
	r.last = record.Seq
	return record, nil
}

var errMissedTooMany = errors.New("more than the sequence numbers left out")

// head reads a record up to its data and sets Data to a buffer for the data.
func (r *RecordReader) head(s *source) Record {
	record := Record{Seq: s.uvarint("seq", 1, math.MaxUint64)}
	if record.Seq <= r.last {
		s.fail("seq", errNotIncreasing)
		return Record{}
	}
	record.Captured = time.Duration(s.uvarint("captured", 0, math.MaxInt64))
	record.Missed = s.uvarint("missed", 0, math.MaxUint64)
	if record.Missed >= record.Seq-r.last {
		s.fail("missed", errMissedTooMany)
	}
	record.Codec = Codec(s.u8("codec"))
	if record.Codec > CodecZstd {
		s.fail("codec", errOutside(record.Codec, CodecNone, CodecZstd))
	}
	if record.Codec != CodecNone {
		record.RawSize = int(s.uvarint("raw size", 1, r.limit))
	}
	size := int(s.uvarint("size", 1, r.limit))
	if s.err == nil {
		record.Data = r.room(size)
	}
	return record
}

// room returns a buffer of size bytes. It doubles the buffer when it is too small, so that records
// of growing size cost few allocations.
func (r *RecordReader) room(size int) []byte {
	if size > cap(r.buf) {
		n := min(max(size, 2*cap(r.buf)), int(r.limit))
		r.buf = nil
		r.buf = make([]byte, n)
	}
	return r.buf[:size]
}
