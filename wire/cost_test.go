package wire

import (
	"bytes"
	"testing"
	"time"
)

const sentAt = time.Hour

func imu() Frame {
	return Frame{Sub: 5, Epoch: 1 << 30, Seq: 123456, Captured: sentAt - 300*time.Microsecond, Data: make([]byte, 64)}
}

func cameraPart() Part {
	f := imu()
	f.Data = make([]byte, PartLen(300_000, 270, 7))
	return Part{Frame: f, Size: 300_000, Index: 7, Count: 270}
}

// datagramOf returns a datagram with as many imu frames as fit.
func datagramOf() []byte {
	b := AppendHeader(nil, Header{Number: 1 << 20, Sent: sentAt})
	for f := imu(); len(b)+frameSize(sentAt, f) <= MaxDatagram; {
		b = AppendFrame(b, sentAt, f)
	}
	return b
}

func TestDatagramsAllocateNothing(t *testing.T) {
	buf := make([]byte, 0, 2*MaxDatagram)
	frame, part, feedback, in := imu(), cameraPart(), fullFeedback(), mixedDatagram()
	mark := Mark{Sub: 5, Bytes: 1500}
	compressed, compressedPart := frame, part
	compressed.Codec, compressed.RawSize, compressed.LastValue = CodecS2, 200, true
	compressedPart.Frame.Codec, compressedPart.RawSize = CodecZstd, 600_000
	var sum int
	for name, f := range map[string]func(){
		"AppendHeader":   func() { AppendHeader(buf, Header{Number: 1, Sent: sentAt}) },
		"AppendFrame":    func() { AppendFrame(buf, sentAt, frame) },
		"AppendPart":     func() { AppendPart(buf, sentAt, part) },
		"AppendFeedback": func() { AppendFeedback(buf, feedback) },
		"AppendMark":     func() { AppendMark(buf, mark) },
		"compressed": func() {
			AppendFrame(buf, sentAt, compressed)
			AppendPart(buf, sentAt, compressedPart)
			sum += frameSize(sentAt, compressed) + partSize(sentAt, compressedPart)
		},
		"FrameSize":      func() { sum += frameSize(sentAt, frame) },
		"PartSize":       func() { sum += partSize(sentAt, part) },
		"Parse and Next": func() { sum += read(in) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
}

func TestRecordsAllocateNothing(t *testing.T) {
	const runs = 100
	buf := make([]byte, 0, 1<<10)
	record := Record{Captured: sentAt, Codec: CodecS2, RawSize: 200, Data: make([]byte, 64)}
	var in []byte
	for record.Seq = 1; record.Seq <= runs+2; record.Seq++ {
		in = appendRecord(in, record)
	}
	if n := testing.AllocsPerRun(runs, func() { appendRecord(buf, record) }); n != 0 {
		t.Errorf("AppendRecord: got %v allocations, want 0", n)
	}
	records := NewRecordReader(bytes.NewReader(in), 1<<10)
	next := func() {
		if _, err := records.Next(); err != nil {
			t.Fatal(err)
		}
	}
	next() // allocates the buffer
	if n := testing.AllocsPerRun(runs, next); n != 0 {
		t.Errorf("Next: got %v allocations, want 0", n)
	}
}

func read(b []byte) (sum int) {
	d, err := Parse(b)
	if err != nil {
		panic(err)
	}
	for e, ok := d.Next(); ok; e, ok = d.Next() {
		switch e.Kind {
		case KindFrame:
			sum += len(e.Frame.Data)
		case KindPart:
			sum += len(e.Part.Data)
		case KindFeedback:
			f := e.Feedback()
			sum += f.GapCount
		case KindMark:
			sum += e.Mark.Bytes
		}
	}
	return sum
}

func BenchmarkAppendFrame(b *testing.B) {
	buf, f := make([]byte, 0, MaxDatagram), imu()
	b.ReportAllocs()
	for b.Loop() {
		AppendFrame(buf, sentAt, f)
	}
	framesPerSecond(b, 1)
}

func BenchmarkReadFrames(b *testing.B) {
	in := datagramOf()
	n := read(in) / len(imu().Data)
	b.ReportAllocs()
	for b.Loop() {
		read(in)
	}
	framesPerSecond(b, n)
}

func BenchmarkReadRecords(b *testing.B) {
	const n = 1000
	var in []byte
	for seq := range uint64(n) {
		in = appendRecord(in, Record{Seq: seq + 1, Captured: sentAt, Data: make([]byte, 64)})
	}
	b.ReportAllocs()
	for b.Loop() {
		records := NewRecordReader(bytes.NewReader(in), 64)
		for range n {
			if _, err := records.Next(); err != nil {
				b.Fatal(err)
			}
		}
	}
	framesPerSecond(b, n)
}

func framesPerSecond(b *testing.B, perRun int) {
	b.ReportMetric(float64(perRun*b.N)/b.Elapsed().Seconds(), "frames/s")
}

// frameSize returns how many bytes AppendFrame appends.
func frameSize(sent time.Duration, f Frame) int {
	return identitySize(sent, &f) + uvarintSize(uint64(len(f.Data))) + len(f.Data)
}

// partSize returns how many bytes AppendPart appends.
func partSize(sent time.Duration, p Part) int {
	return identitySize(sent, &p.Frame) + uvarintSize(uint64(p.Size)) +
		uvarintSize(uint64(p.Index)) + uvarintSize(uint64(p.Count)) + len(p.Data)
}
