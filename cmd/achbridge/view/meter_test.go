package view

import (
	"math"
	"testing"
	"time"
)

func TestMeterReportsRateJitterAndSizes(t *testing.T) {
	m := Meter{Window: time.Second}
	start := time.Unix(100, 0)
	for i := range 300 { // a frame every 10 ms, every second one 2 ms late
		late := time.Duration(i%2) * 2 * time.Millisecond
		m.add(arrival{at: start.Add(time.Duration(i)*10*time.Millisecond + late), seq: uint64(i + 1), size: 60 + i%2})
	}
	r := m.Measure(start.Add(2995 * time.Millisecond))

	if math.Abs(r.Hz-100) > 0.5 || math.Abs(r.JitterMs-2) > 0.05 {
		t.Errorf("got %.2f Hz, jitter %.3f ms, want 100 Hz, 2 ms", r.Hz, r.JitterMs)
	}
	if r.Frames != 100 || r.Missed != 0 || r.SizeMin != 60 || r.SizeMax != 61 || math.Abs(r.SizeMean-60.5) > 0.01 {
		t.Errorf("got %+v, want 100 frames of 60 to 61 bytes, none missed", r)
	}
	if len(m.arrivals) > 101 {
		t.Errorf("got %d arrivals, want those of the window and one before", len(m.arrivals))
	}
}

func TestMeterCountsMissedFrames(t *testing.T) {
	m := Meter{Window: time.Second}
	start := time.Unix(100, 0)
	for i := range 10 {
		m.add(arrival{at: start.Add(time.Duration(i) * 100 * time.Millisecond), seq: uint64(5*i + 1), size: 1})
	}
	r := m.Measure(start.Add(950 * time.Millisecond))

	if math.Abs(r.Hz-50) > 1e-6 || r.Missed != 36 || r.Frames != 10 {
		t.Errorf("got %.3f Hz, %d missed, %d frames, want 50, 36, 10", r.Hz, r.Missed, r.Frames)
	}
}

func TestMeterReportsZeroDuringSilence(t *testing.T) {
	m := Meter{Window: time.Second}
	start := time.Unix(100, 0)
	if r := m.Measure(start); r.Hz != 0 || r.Frames != 0 {
		t.Errorf("before any frame: got %+v, want zeros", r)
	}
	m.add(arrival{at: start, seq: 7, size: 3})
	if r := m.Measure(start.Add(time.Millisecond)); r.Hz != 0 || r.Frames != 1 {
		t.Errorf("after one frame: got %+v, want no rate", r)
	}
	if r := m.Measure(start.Add(5 * time.Second)); r.Hz != 0 || r.Frames != 0 {
		t.Errorf("after 5 s of silence: got %+v, want zeros", r)

	}
}
