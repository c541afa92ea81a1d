package wire

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestFrameMaximaAreReached(t *testing.T) {
	const sent = time.Duration(math.MaxInt64)
	head := AppendHeader(nil, Header{Number: math.MaxInt64, Sent: sent})
	if len(head) != MaxHeader {
		t.Errorf("header: got %d bytes, want %d", len(head), MaxHeader)
	}
	data := make([]byte, MaxDatagram-MaxHeader-MaxFrameOverhead)
	f := Frame{Sub: math.MaxUint32, Epoch: math.MaxUint32, Seq: math.MaxUint64, Captured: 1, Data: data}
	b := AppendFrame(head, sent, f)
	if len(b) != MaxDatagram || FrameSize(sent, f) != MaxDatagram-MaxHeader {
		t.Errorf("frame: got %d and %d bytes, want %d", len(b), FrameSize(sent, f), MaxDatagram)
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

func TestFeedbackMaximumIsReached(t *testing.T) {
	b := AppendFeedback(nil, fullFeedback())
	if len(b) != MaxFeedback {
		t.Errorf("got %d bytes, want %d", len(b), MaxFeedback)
	}
	mustParse(t, append(AppendHeader(nil, Header{Number: 1}), b...))
}

func TestDatagramCanBeFilledExactly(t *testing.T) {
	const sent = time.Second
	f := Frame{Sub: 3, Epoch: 9, Seq: 300, Captured: sent - time.Millisecond}
	b := AppendHeader(nil, Header{Number: 200, Sent: sent})
	b = AppendFrame(b, sent, Frame{Sub: 1, Seq: 1, Data: []byte("imu")})
	f.Data = make([]byte, MaxDatagram-len(b)-FrameSize(sent, f)-1) // its size takes two bytes
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

func TestPartCountRefusesWhatCannotBeSent(t *testing.T) {
	for _, c := range [][2]int{{0, 1000}, {-1, 1000}, {1, 0}, {1, -1}, {MaxFrame + 1, 1100}, {MaxFrame, 1023}} {
		if got := PartCount(c[0], c[1]); got != 0 {
			t.Errorf("PartCount(%d, %d): got %d, want 0", c[0], c[1], got)
		}
	}
}

// A frame is copied out of shared memory behind room for its header, before
// the header's length is known.
func TestFrameDataMayLieInSpareCapacity(t *testing.T) {
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

func TestCaptureTimeSurvives(t *testing.T) {
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

func TestEntryDataCannotGrowIntoTheNext(t *testing.T) {
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

func TestHostileDatagramIsRefusedByField(t *testing.T) {
	const frame = "01 01 00000001 01 00 "
	const part = "02 01 00000001 01 00 "
	huge := "ffffffffffffffffff01"
	for _, c := range []struct{ name, hex, want string }{
		{"empty", "", "packet number: cut short"},
		{"number 0", "00 00", "packet number: 0 is not in 1"},
		{"number beyond 63 bits", huge + "00", "packet number: 18446744073709551615 is not in"},
		{"number overlong", "8100 00", "packet number: varint longer than needed"},
		{"number endless", "8080808080808080808080 00", "packet number: varint longer than 64 bits"},
		{"no send time", "01", "send time: cut short"},
		{"send time beyond 63 bits", "01" + huge, "send time: "},
		{"type 0", "01 00 00", "entry 1: type: 0 is not in 1 … 3"},
		{"type 4", "01 00" + frame + "01 aa 04", "entry 2: type: 4"},
		{"sub 0", "01 00 01 00 00000001 01 00 01 aa", "sub: 0"},
		{"sub beyond 32 bits", "01 00 01 8080808010 00000001 01 00 01 aa", "sub: 4294967296"},
		{"epoch cut", "01 00 01 01 000000", "epoch: cut short"},
		{"seq 0", "01 00 01 01 00000001 00 00 01 aa", "seq: 0"},
		{"captured before the clock", "01 05 01 01 00000001 01 06 01 aa", "captured: 6 is not in 0 … 5"},
		{"captured overlong", "01 05 01 01 00000001 01 8100 01 aa", "captured: varint longer"},
		{"frame of nothing", "01 00" + frame + "00", "frame size: 0"},
		{"frame above MaxFrame", "01 00" + frame + "81808020 aa", "frame size: 67108865"},
		{"frame size of 2^63", "01 00" + frame + "80808080808080808001 aa", "frame size: 9223372036854775808"},
		{"frame cut", "01 00" + frame + "02 aa", "frame data: cut short"},
		{"part above MaxFrame", "01 00" + part + "81808020 00 01 aa", "part size: 67108865"},
		{"part of nothing", "01 00" + part + "00 00 01", "part size: 0"},
		{"part index at count", "01 00" + part + "04 02 02 aaaa", "part index: 2 is not in 0 … 1"},
		{"part count 0", "01 00" + part + "04 00 00 aa", "part count: 0"},
		{"too many parts", "01 00" + part + "80808020 00 818004 aa", "part count: 65537"},
		{"more parts than bytes", "01 00" + part + "02 00 03 aa", "part count: 2 bytes cannot be in 3 parts"},
		{"parts left empty", "01 00" + part + "0a 00 06 aaaa", "part count: 10 bytes cannot be in 6 parts"},
		{"part cut", "01 00" + part + "04 00 02 aa", "part data: cut short"},
		{"last part longer", "01 00" + part + "03 01 02 aaaa", "entry 2: type: 170"},
		{"newest 0", "01 00 03 00 0000000000000000 00 00 00", "feedback newest: 0"},
		{"bitmap below packet 1", "01 00 03 01 0000000000000001 00 00 00", "feedback bitmap: has a packet below"},
		{"bitmap below packet 1 at 64", "01 00 03 40 8000000000000000 00 00 00", "feedback bitmap: has a packet below"},
		{"17 arrivals", "01 00 03 05 000000000000000f 11 00 00", "feedback arrivals: 17 is not in 0 … 16"},
		{"arrival of newest", "01 00 03 05 000000000000000f 01 00 00 00 00", "arrival back: 0"},
		{"arrival of no packet", "01 00 03 05 000000000000000e 01 01 00 00 00", "arrival back: of a packet"},
		{"arrival beyond the bitmap", "01 00 03 80 01 ffffffffffffffff 01 41 00 00 00", "arrival back: 65"},
		{"arrival twice", "01 00 03 05 000000000000000f 02 01 00 01 00 00 00", "arrival back: not increasing"},
		{"arrival before the clock", "01 00 03 05 000000000000000f 01 01 07 06 00", "feedback arrived: 6 is not in 7"},
		{"9 gaps", "01 00 03 01 0000000000000000 00 00 09", "feedback gaps: 9"},
		{"gap of sub 0", "01 00 03 01 0000000000000000 00 00 01 00 01 00 01", "gap sub: 0"},
		{"gap of seq 0", "01 00 03 01 0000000000000000 00 00 01 01 00 00 01", "gap seq: 0"},
		{"gap of nothing", "01 00 03 01 0000000000000000 00 00 01 01 01 00 00", "gap count: 0"},
		{"gap past MaxParts", "01 00 03 01 0000000000000000 00 00 01 01 01 ffff03 02", "gap count: 2 is not in 1 … 1"},
		{"feedback cut", "01 00 03 01 00000000000000", "feedback bitmap: cut short"},
	} {
		t.Run(c.name, func(t *testing.T) { refusesDatagram(t, unhex(t, c.hex), c.want) })
	}
	refusesDatagram(t, make([]byte, MaxDatagram+1), "1201 is not in 2 … 1200 bytes")
}

func TestEveryCutDatagramIsRefusedOrShorter(t *testing.T) {
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

func refusesDatagram(t *testing.T, b []byte, want string) {
	t.Helper()
	_, err := Parse(b)
	if err == nil || !strings.HasPrefix(err.Error(), "datagram: ") || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one with %q", err, want)
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

// appendEntry writes an entry that was read.
func appendEntry(b []byte, sent time.Duration, e Entry) []byte {
	switch e.Kind {
	case KindFrame:
		return AppendFrame(b, sent, e.Frame)
	case KindPart:
		return AppendPart(b, sent, e.Part)
	}
	return AppendFeedback(b, e.Feedback())
}

func mixedDatagram() []byte {
	const sent = 3 * time.Second
	b := AppendHeader(nil, Header{Number: 77, Sent: sent})
	b = AppendFeedback(b, fullFeedback())
	b = AppendFrame(b, sent, Frame{Sub: 1, Epoch: 7, Seq: 1000, Captured: sent - time.Millisecond, Data: make([]byte, 64)})
	return AppendPart(b, sent, Part{
		Frame: Frame{Sub: 2, Epoch: 7, Seq: 9, Captured: sent, Data: make([]byte, PartLen(3000, 6, 5))},
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
