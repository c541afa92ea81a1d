package wire

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func TestLargestFramesHaveMaximumSizes(t *testing.T) {
	const sent = time.Duration(math.MaxInt64)
	head := AppendHeader(nil, Header{Number: math.MaxInt64, Sent: sent})
	if len(head) != MaxHeader {
		t.Errorf("header: got %d bytes, want %d", len(head), MaxHeader)
	}
	data := make([]byte, MaxDatagram-MaxHeader-MaxFrameOverhead)
	f := Frame{Sub: math.MaxUint32, Epoch: math.MaxUint32, Seq: math.MaxUint64, Captured: 1, Codec: CodecZstd, RawSize: MaxFrame, Data: data}
	b := AppendFrame(head, sent, f)
	if len(b) != MaxDatagram || frameSize(sent, f) != MaxDatagram-MaxHeader {
		t.Errorf("frame: got %d and %d bytes, want %d", len(b), frameSize(sent, f), MaxDatagram)
	}
	mustParse(t, b)

	count := PartCount(MaxFrame, 1024)
	if count != MaxParts {
		t.Fatalf("got %d parts, want %d", count, MaxParts)
	}
	p := Part{Frame: f, Size: MaxFrame, Index: count - 1, Count: count}
	p.Data = make([]byte, PartLen(p.Size, p.Count, p.Index))
	b = AppendPart(head, sent, p)
	if got := len(b) - len(head) - len(p.Data); got != MaxPartOverhead {
		t.Errorf("part overhead: got %d, want %d", got, MaxPartOverhead)
	}
	mustParse(t, b)
}

func TestLargestFeedbackHasMaximumSize(t *testing.T) {
	b := AppendFeedback(nil, fullFeedback())
	if len(b) != MaxFeedback {
		t.Errorf("got %d bytes, want %d", len(b), MaxFeedback)
	}
	mustParse(t, append(AppendHeader(nil, Header{Number: 1}), b...))
}

func TestLargestMarkHasMaximumSize(t *testing.T) {
	b := AppendMark(nil, Mark{Sub: math.MaxUint32, Bytes: math.MaxInt64})
	if len(b) != MaxMark {
		t.Errorf("got %d bytes, want %d", len(b), MaxMark)
	}
	mustParse(t, append(AppendHeader(nil, Header{Number: 1}), b...))
}

// The codec has three bits on the wire. A larger number must not be truncated to another codec.
func TestUnknownCodecIsRefused(t *testing.T) {
	for codec := CodecZstd + 1; codec != 0; codec++ {
		b := AppendFrame(AppendHeader(nil, Header{Number: 1}), 0, Frame{Sub: 1, Seq: 1, Codec: codec, RawSize: 1, Data: []byte{1}})
		_, err := Parse(b)
		refused(t, err, "datagram: ", "codec")
	}
}

func TestRawSizeIsOnlySentWithACodec(t *testing.T) {
	f := Frame{Sub: 1, Seq: 1, RawSize: 1000, Data: []byte{1}}
	d := mustParse(t, AppendFrame(AppendHeader(nil, Header{Number: 1}), 0, f))
	f.RawSize = 0
	if e, _ := d.Next(); !reflect.DeepEqual(e.Frame, f) {
		t.Errorf("got %+v, want %+v", e.Frame, f)
	}
}

func TestDatagramCanBeFilledExactly(t *testing.T) {
	const sent = time.Second
	f := Frame{Sub: 3, Epoch: 9, Seq: 300, Captured: sent - time.Millisecond}
	b := AppendHeader(nil, Header{Number: 200, Sent: sent})
	b = AppendFrame(b, sent, Frame{Sub: 1, Seq: 1, Data: []byte("imu")})
	f.Data = make([]byte, MaxDatagram-len(b)-frameSize(sent, f)-1) // its size takes two bytes
	b = AppendFrame(b, sent, f)
	if len(b) != MaxDatagram {
		t.Fatalf("got %d bytes, want %d", len(b), MaxDatagram)
	}
	d := mustParse(t, b)
	if got := entries(&d); len(got) != 2 || !reflect.DeepEqual(got[1].Frame, f) {
		t.Errorf("got %+v", got)
	}
	if _, err := Parse(append(b, 0)); err == nil {
		t.Error("one byte more was accepted")
	}
}

func TestPartsCoverEveryByteOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		size, room := 1+random.IntN(100_000), 1+random.IntN(2000)
		count := PartCount(size, room)
		if count == 0 {
			if size <= room*MaxParts {
				t.Fatalf("%d bytes into parts of %d: refused", size, room)
			}
			continue
		}
		sum := 0
		for i := range count {
			n := PartLen(size, count, i)
			if n < 1 || n > room || i*PartLen(size, count, 0) != sum {
				t.Fatalf("%d bytes into parts of %d: part %d has %d", size, room, i, n)
			}
			sum += n
		}
		if sum != size {
			t.Fatalf("%d bytes into parts of %d: got %d", size, room, sum)
		}
		b := AppendPart(AppendHeader(nil, Header{Number: 1}), 0, Part{
			Frame: Frame{Sub: 1, Seq: 1, Data: make([]byte, PartLen(size, count, count-1))},
			Size:  size, Index: count - 1, Count: count,
		})
		if len(b) <= MaxDatagram {
			mustParse(t, b)
		}
	}
}

func TestPartCountRefusesUnsendableSizes(t *testing.T) {
	for _, c := range [][2]int{{0, 1000}, {-1, 1000}, {1, 0}, {1, -1}, {MaxFrame + 1, 1100}, {MaxFrame, 1023}} {
		if got := PartCount(c[0], c[1]); got != 0 {
			t.Errorf("PartCount(%d, %d): got %d, want 0", c[0], c[1], got)
		}
	}
}

// Senders copy a frame out of shared memory before they know the length of its header, so they leave
// room for the longest one.
func TestFrameDataCanUseSpareCapacity(t *testing.T) {
	buf := make([]byte, 0, MaxDatagram)
	b := AppendHeader(buf, Header{Number: 1, Sent: 5})
	data := b[len(b)+MaxFrameOverhead : len(b)+MaxFrameOverhead+500]
	for i := range data {
		data[i] = byte(i)
	}
	want := bytes.Clone(data)
	b = AppendFrame(b, 5, Frame{Sub: 1, Seq: 1, Data: data})
	d := mustParse(t, b)
	if e, _ := d.Next(); !bytes.Equal(e.Frame.Data, want) {
		t.Error("the data was overwritten")
	}
}

func TestCaptureTimeRoundTrip(t *testing.T) {
	const sent = time.Minute
	for captured, want := range map[time.Duration]time.Duration{
		0: 0, 1: 1, sent - 1: sent - 1, sent: sent, sent + 1: sent, -1: 0,
	} {
		b := AppendHeader(nil, Header{Number: 1, Sent: sent})
		b = AppendFrame(b, sent, Frame{Sub: 1, Seq: 1, Captured: captured, Data: []byte{1}})
		d := mustParse(t, b)
		if e, _ := d.Next(); e.Frame.Captured != want {
			t.Errorf("captured %d: got %d, want %d", captured, e.Frame.Captured, want)
		}
	}
	b := AppendHeader(nil, Header{Number: 1})
	mustParse(t, AppendFrame(b, 0, Frame{Sub: 1, Seq: 1, Captured: 1, Data: []byte{1}}))
}

func TestEntryDataHasNoSpareCapacity(t *testing.T) {
	b := AppendHeader(nil, Header{Number: 1})
	b = AppendFrame(b, 0, Frame{Sub: 1, Seq: 1, Data: []byte("a")})
	b = AppendFrame(b, 0, Frame{Sub: 2, Seq: 1, Data: []byte("b")})
	d := mustParse(t, b)
	e, _ := d.Next()
	_ = append(e.Frame.Data, 0xff)
	if e, _ := d.Next(); e.Kind != KindFrame || e.Frame.Sub != 2 {
		t.Errorf("got %+v", e)
	}
}

func TestTruncatedDatagramYieldsFewerEntriesOrError(t *testing.T) {
	b := mixedDatagram()
	whole := mustParse(t, b)
	n := len(entries(&whole))
	for i := range b {
		d, err := Parse(b[:i:i])
		if err == nil && len(entries(&d)) >= n {
			t.Errorf("%d of %d bytes: all entries are there", i, len(b))
		}
	}
}

func mustParse(t *testing.T, b []byte) Datagram {
	t.Helper()
	d, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func entries(d *Datagram) (all []Entry) {
	for e, ok := d.Next(); ok; e, ok = d.Next() {
		all = append(all, e)
	}
	return all
}

// appendEntry encodes a parsed entry again.
func appendEntry(b []byte, sent time.Duration, e Entry) []byte {
	switch e.Kind {
	case KindFrame:
		return AppendFrame(b, sent, e.Frame)
	case KindPart:
		return AppendPart(b, sent, e.Part)
	case KindMark:
		return AppendMark(b, e.Mark)
	}
	return AppendFeedback(b, e.Feedback())
}

func mixedDatagram() []byte {
	const sent = 3 * time.Second
	b := AppendHeader(nil, Header{Number: 77, Sent: sent})
	b = AppendFeedback(b, fullFeedback())
	b = AppendFrame(b, sent, Frame{Sub: 1, Epoch: 7, Seq: 1000, Captured: sent - time.Millisecond, Data: make([]byte, 64)})
	b = AppendMark(b, Mark{Sub: 3, Bytes: 5000})
	return AppendPart(b, sent, Part{
		Frame: Frame{LastValue: true, Codec: CodecZstd, RawSize: 9000, Sub: 2, Epoch: 7, Seq: 9, Captured: sent, Data: make([]byte, PartLen(3000, 6, 5))},
		Size:  3000, Index: 5, Count: 6,
	})
}

func fullFeedback() Feedback {
	f := Feedback{Newest: math.MaxInt64, Bitmap: math.MaxUint64, Arrived: math.MaxInt64}
	for i := range f.Arrivals {
		f.Arrivals[i] = Arrival{Back: uint64(i + 1), Before: math.MaxInt64}
	}
	for i := range f.Gaps {
		f.Gaps[i] = Gap{Sub: math.MaxUint32, Seq: math.MaxUint64, First: MaxParts / 2, Count: MaxParts / 2}
	}
	f.ArrivalCount, f.GapCount = len(f.Arrivals), len(f.Gaps)
	return f
}
