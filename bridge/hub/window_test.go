package hub

import (
	"testing"
	"time"
)

// path is a link with a rate and a shortest round trip. The bytes in transit always fill the
// window.
type path struct {
	rate  float64
	trip  time.Duration
	clock time.Duration
}

// round passes one round on the path to the window.
func (p *path) round(w *window) {
	size := float64(w.size)
	took := max(p.trip+time.Duration(segment/p.rate*1e9), time.Duration(size/p.rate*1e9))
	p.clock += took
	w.take(round{Now: p.clock, Took: took, Delivered: int(min(size, p.rate*took.Seconds())), Limited: true})
}

func TestWindowFindsPathCapacity(t *testing.T) {
	for _, c := range []struct {
		name string
		path path
	}{
		{"1 Mbit/s, 20 ms", path{rate: 125e3, trip: 20 * time.Millisecond}},
		{"10 Mbit/s, 50 ms", path{rate: 1.25e6, trip: 50 * time.Millisecond}},
		{"100 Mbit/s, 20 ms", path{rate: 12.5e6, trip: 20 * time.Millisecond}},
		{"100 kbit/s, 100 ms", path{rate: 12.5e3, trip: 100 * time.Millisecond}},
	} {
		w := newWindow()
		for c.path.clock < 3*leastHolds { // the window starts without knowing that the path is full
			c.path.round(&w)
		}
		for w.rounds%growRounds != growRounds/2 { // not in a round that tests for more capacity
			c.path.round(&w)
		}
		carries := c.path.rate * c.path.trip.Seconds()
		if low, high := 0.8*carries, 1.6*carries+float64(tightWindow); float64(w.size) < low || float64(w.size) > high {
			t.Errorf("%s: got a window of %d bytes, want %.0f to %.0f", c.name, w.size, low, high)
		}
	}
}

func TestWindowAdaptsToPathChange(t *testing.T) {
	p, w := path{rate: 12.5e6, trip: 20 * time.Millisecond}, newWindow()
	for range 60 {
		p.round(&w)
	}
	p.rate = 125e3
	for range 60 {
		p.round(&w)
	}
	if most := 4 * 1460 * 3; w.size > most {
		t.Errorf("slower path: got a window of %d bytes, want at most %d", w.size, most)
	}
	p.rate, p.trip = 12.5e6, 100*time.Millisecond // longer too, so the former shortest round trip must expire
	for p.clock += leastHolds; p.clock < 10*leastHolds; {
		p.round(&w)
	}
	if least := int(0.5 * p.rate * p.trip.Seconds()); w.size < least {
		t.Errorf("faster and longer path: got a window of %d bytes, want at least %d", w.size, least)
	}
}

func TestWindowStaysWithoutQueue(t *testing.T) {
	w := newWindow()
	for i := range 100 {
		w.take(round{Now: time.Duration(i) * 50 * time.Millisecond, Took: 20 * time.Millisecond, Delivered: 100})
	}
	if w.size != firstWindow {
		t.Errorf("got a window of %d bytes, want %d as in the beginning", w.size, firstWindow)
	}
}

// A channel that sends little does not show the capacity of the path.
func TestLightTrafficDoesNotShrinkWindow(t *testing.T) {
	w := newWindow()
	const trip = 10 * time.Millisecond
	for i := range 1000 {
		took := trip
		if i%10 == 9 {
			took = 2 * trip // a delayed round
		}
		w.take(round{Now: time.Duration(i) * trip, Took: took, Delivered: 300})
	}
	if w.least < trip || w.size < firstWindow {
		t.Errorf("got a shortest round trip of %v and a window of %d bytes, want %v and %d", w.least, w.size, trip, firstWindow)
	}
}

// The traffic in a narrow window does not show the capacity of the path.
func TestTooSmallWindowGrows(t *testing.T) {
	w := newWindow()
	w.size, w.rate = tightWindow, 280e3
	const trip = 11 * time.Millisecond
	for i := range 200 {
		w.take(round{Now: time.Duration(i) * trip, Took: trip, Delivered: w.size - segment, Limited: true})
	}
	if w.size < 4*firstWindow {
		t.Errorf("got a window of %d bytes where no queue was seen, want it to grow", w.size)
	}
}
