package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"
	"time"
)

// streamLimit is the record limit for hostileStreams.
const streamLimit = 1000

// stream is a whole reliable stream.
type stream struct {
	StreamHeader
	Records []Record
}

func (s stream) append(dst []byte) []byte {
	dst = AppendStreamHeader(dst, s.StreamHeader)
	for _, r := range s.Records {
		dst = appendRecord(dst, r)
	}
	return dst
}

// readStream reads until the first error, which is io.EOF for a complete stream.
func readStream(r io.Reader, limit int) (s stream, err error) {
	if s.StreamHeader, err = ReadStreamHeader(r); err != nil {
		return s, err
	}
	records := NewRecordReader(r, limit)
	for {
		record, err := records.Next()
		if err != nil {
			return s, err
		}
		record.Data = bytes.Clone(record.Data)
		s.Records = append(s.Records, record)
	}
}

func logs() stream {
	return stream{StreamHeader{Sub: 5, Epoch: 1 << 40}, []Record{
		{Seq: 3, Captured: time.Second, Missed: 2, Data: []byte("boot")},
		{Seq: 4, Codec: CodecS2, RawSize: streamLimit, Data: make([]byte, 20)},
		{Seq: 900, Captured: 1, Codec: CodecZstd, RawSize: 1, Data: make([]byte, streamLimit)},
	}}
}

const (
	start  = "05 0000000000000001 " // a stream header
	first  = "01 00 00 00 01 aa "   // a record
	second = "02 00 00 "            // a record up to missed
)

var hostileStreams = []hostile{
	{"sub 0", "00 0000000000000001", "stream header: sub: 0 is not in 1"},
	{"sub beyond 32 bits", "8080808010 0000000000000001", "stream header: sub: 4294967296"},
	{"sub overlong", "8500 0000000000000001", "stream header: sub: varint longer than needed"},
	{"sub endless", "8080808080808080808080 00", "stream header: sub: varint longer than 64 bits"},
	{"seq 0", start + "00", "record: seq: 0 is not in 1"},
	{"seq twice", start + first + "01", "record: seq: not increasing"},
	{"seq back", start + "05 00 00 00 01 aa 04", "record: seq: not increasing"},
	{"seq after the last", start + huge + "00 00 00 01 aa 01", "record: seq: not increasing"},
	{"captured beyond 63 bits", start + "01" + huge, "record: captured: 18446744073709551615"},
	{"missed before seq 1", start + "01 00 01", "record: missed: more than"},
	{"missed without a number left out", start + first + "02 00 01", "record: missed: more than"},
	{"missed all", start + first + "05 00" + huge, "record: missed: more than"},
	{"unknown codec", start + first + second + "03", "record: codec: 3 is not in 0 … 2"},
	{"raw size 0", start + first + second + "01 00", "record: raw size: 0"},
	{"raw size above the limit", start + first + second + "01 e907", "record: raw size: 1001 is not in 1 … 1000"},
	{"raw size overlong", start + first + second + "01 8100", "record: raw size: varint longer than needed"},
	{"record of nothing", start + first + second + "00 00", "record: size: 0"},
	{"size above the limit", start + first + second + "00 e907", "record: size: 1001 is not in 1 … 1000"},
	{"size of 2^64-1", start + first + second + "00" + huge, "record: size: 18446744073709551615"},
}

func TestHostileStreamIsRefusedByField(t *testing.T) {
	for _, c := range hostileStreams {
		t.Run(c.name, func(t *testing.T) {
			_, err := readStream(bytes.NewReader(fromHex(t, c.hex)), streamLimit)
			refused(t, err, "", c.want)
		})
	}
}

func TestStreamIsReadByteByByte(t *testing.T) {
	want := logs()
	got, err := readStream(iotest.OneByteReader(bytes.NewReader(want.append(nil))), streamLimit)
	if err != io.EOF || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestTruncatedStreamErrorNamesTheField(t *testing.T) {
	s := logs()
	b := s.append(nil)
	between := []int{0}
	for i := range len(s.Records) + 1 {
		between = append(between, len(stream{s.StreamHeader, s.Records[:i]}.append(nil)))
	}
	for i := range len(b) + 1 {
		_, err := readStream(bytes.NewReader(b[:i]), streamLimit)
		if slices.Contains(between, i) {
			if err != io.EOF {
				t.Errorf("%d of %d bytes: got %v, want io.EOF", i, len(b), err)
			}
		} else if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d of %d bytes: got %v, want io.ErrUnexpectedEOF", i, len(b), err)
		}
	}
}

func TestReadStreamHeaderReadsNoRecordBytes(t *testing.T) {
	r := bytes.NewReader(logs().append(nil))
	if _, err := ReadStreamHeader(r); err != nil {
		t.Fatal(err)
	}
	if _, err := NewRecordReader(r, streamLimit).Next(); err != nil {
		t.Error(err)
	}
}

func TestRecordBufferStaysWithinTheLimit(t *testing.T) {
	var b []byte
	for seq, size := range []int{1, 400, 500, 600, streamLimit, 3, streamLimit} {
		b = appendRecord(b, Record{Seq: uint64(seq + 1), Data: make([]byte, size)})
	}
	r := NewRecordReader(bytes.NewReader(b), streamLimit)
	var err error
	for err == nil {
		if _, err = r.Next(); cap(r.buf) > streamLimit {
			t.Fatalf("got a buffer of %d bytes, want at most %d", cap(r.buf), streamLimit)
		}
	}
	if err != io.EOF {
		t.Error(err)
	}
}

func TestRecordReaderWithZeroLimitRefusesAll(t *testing.T) {
	for _, limit := range []int{0, -1} {
		_, err := NewRecordReader(bytes.NewReader(fromHex(t, first)), limit).Next()
		refused(t, err, "record: ", "size")
	}
}

func TestRecordReaderRefusesAboveMaxFrame(t *testing.T) {
	_, err := NewRecordReader(bytes.NewReader(fromHex(t, "01 00 00 00 81808020")), 2*MaxFrame).Next()
	refused(t, err, "record: ", "size: 67108865")
}

// Bytes after a refused record must not be parsed as another record.
func TestRecordReaderRepeatsItsError(t *testing.T) {
	r := NewRecordReader(bytes.NewReader(fromHex(t, "00"+first)), streamLimit)
	_, want := r.Next()
	if got, err := r.Next(); want == nil || err != want {
		t.Errorf("got %+v, %v, want error %v", got, err, want)
	}
}

func TestStreamErrorIsPassedOn(t *testing.T) {
	broken := errors.New("reset by peer")
	b := logs().append(nil)
	for i := range b {
		_, err := readStream(io.MultiReader(bytes.NewReader(b[:i]), iotest.ErrReader(broken)), streamLimit)
		if !errors.Is(err, broken) {
			t.Errorf("after %d bytes: got %v, want %v", i, err, broken)
		}
	}
}

func TestNegativeCaptureTimeIsUnknown(t *testing.T) {
	b := appendRecord(nil, Record{Seq: 1, Captured: -1, Data: []byte{1}})
	got, err := NewRecordReader(bytes.NewReader(b), streamLimit).Next()
	if err != nil || got.Captured != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// appendRecord appends a whole record.
func appendRecord(dst []byte, r Record) []byte {
	return append(AppendRecordHead(dst, r, len(r.Data)), r.Data...)
}
