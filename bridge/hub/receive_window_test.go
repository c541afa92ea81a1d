package hub

import (
	"testing"
	"time"
)

// fill simulates a hub that has large frames for a path of rate bytes/s. It returns the longest
// time that a small frame waits behind them once its size has settled.
func fill(i *receiveWindow, rate float64, trip time.Duration, seconds int) (wait time.Duration) {
	const readSize = segment
	one := time.Duration(readSize / rate * float64(time.Second))
	now, flying := time.Second, 0
	for end := now + time.Duration(seconds)*time.Second; now < end; {
		// Data in transit beyond the capacity of the path queues.
		flying = i.size
		queue := time.Duration(float64(flying)/rate*float64(time.Second)) - trip
		if end-now < time.Second {
			wait = max(wait, queue)
		}
		// The hub sends as fast as the path or the receive window allows.
		now += max(one, time.Duration(float64(readSize)/float64(i.size)*float64(trip)))
		i.take(readSize, now, trip)
	}
	return wait
}

func TestReceiveWindowMatchesPathCapacity(t *testing.T) {
	for _, c := range []struct {
		name     string
		rate     float64
		trip     time.Duration
		hasSmall bool
		limit    time.Duration
	}{
		{"1 Mbit/s", 125e3, 20 * time.Millisecond, false, 26 * time.Millisecond},
		{"1 Mbit/s beside small frames", 125e3, 20 * time.Millisecond, true, 15 * time.Millisecond},
		{"100 Mbit/s", 12.5e6, 20 * time.Millisecond, false, 45 * time.Millisecond},
	} {
		i := newReceiveWindow()
		i.hasSmall = c.hasSmall
		wait := fill(&i, c.rate, c.trip, 10)
		if wait > c.limit {
			t.Errorf("%s: small frames wait %v behind large ones, want at most %v", c.name, wait, c.limit)
		}
		if carried := float64(i.size) / c.trip.Seconds(); carried < 0.7*c.rate {
			t.Errorf("%s: a window of %d bytes carries %.0f bytes a second, want about %.0f", c.name, i.size, carried, c.rate)
		}
	}
}

func TestReceiveWindowMeasuresFramesSmallerThanWindow(t *testing.T) {
	i := newReceiveWindow()
	i.size = 1 << 20 // the path was wide
	for n := range time.Duration(3) {
		begin := (n + 1) * time.Second
		for part := range time.Duration(10) {
			i.take(segment, begin+part*12*time.Millisecond, 10*time.Millisecond)
		}
		i.pause(begin+108*time.Millisecond, 10*time.Millisecond)
	}
	if want := 4 * segment; i.size > want {
		t.Errorf("got a window of %d bytes on 1 Mbit/s, want at most %d", i.size, want)
	}
}
