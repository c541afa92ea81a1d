package wire

import (
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

// datagramOf has as many imu frames as fit.
func datagramOf() []byte {
	b := AppendHeader(nil, Header{Number: 1 << 20, Sent: sentAt})
	for f := imu(); len(b)+FrameSize(sentAt, f) <= MaxDatagram; {
		b = AppendFrame(b, sentAt, f)
	}
	return b
}

func TestDatagramsAllocateNothing(t *testing.T) {
	buf := make([]byte, 0, 2*MaxDatagram)
	frame, part, feedback, in := imu(), cameraPart(), fullFeedback(), mixedDatagram()
	var sum int
	for name, f := range map[string]func(){
		"AppendHeader":   func() { AppendHeader(buf, Header{Number: 1, Sent: sentAt}) },
		"AppendFrame":    func() { AppendFrame(buf, sentAt, frame) },
		"AppendPart":     func() { AppendPart(buf, sentAt, part) },
		"AppendFeedback": func() { AppendFeedback(buf, feedback) },
		"FrameSize":      func() { sum += FrameSize(sentAt, frame) },
		"PartSize":       func() { sum += PartSize(sentAt, part) },
		"Parse and Next": func() { sum += read(in) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
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

func BenchmarkAppendPart(b *testing.B) {
	buf, p := make([]byte, 0, MaxDatagram), cameraPart()
	b.ReportAllocs()
	for b.Loop() {
		AppendPart(buf, sentAt, p)
	}
}

func BenchmarkAppendFeedback(b *testing.B) {
	buf, f := make([]byte, 0, MaxDatagram), fullFeedback()
	b.ReportAllocs()
	for b.Loop() {
		AppendFeedback(buf, f)
	}
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

func BenchmarkReadFeedback(b *testing.B) {
	in := AppendFeedback(AppendHeader(nil, Header{Number: 1}), fullFeedback())
	b.ReportAllocs()
	for b.Loop() {
		read(in)
	}
}

func BenchmarkCatalog(b *testing.B) {
	m := largestCatalog()
	b.ReportAllocs()
	for b.Loop() {
		out, err := AppendMessage(nil, m)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := ParseMessage(out[4:]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(m.Channels)*b.N)/b.Elapsed().Seconds(), "channels/s")
}

func framesPerSecond(b *testing.B, perRun int) {
	b.ReportMetric(float64(perRun*b.N)/b.Elapsed().Seconds(), "frames/s")
}
