package hub

import (
	"math/rand/v2"
	"testing"
	"time"
)

// reading is a path from an origin through the hub to a reader. The simulation is exact, apart
// from the jitter.
type reading struct {
	name   string
	every  time.Duration // interval of frames at the hub
	send   time.Duration // duration of one frame on the reader's downlink
	trip   time.Duration // round trip between reader and hub
	jitter time.Duration // maximum, for each frame on its path to the hub
	stall  time.Duration // how long the downlink stalls after one frame of ten
}

// age returns the average age of the newest frame at the reader between from and to, since its
// arrival at the hub. fetches returns the limit of fetches, and is called for each frame.
func (p reading) age(from, to time.Duration, fetches func(now time.Duration, s *stored) int) time.Duration {
	random := rand.New(rand.NewPCG(1, 2))
	const start = 1000 * time.Second // time by the hub's clock
	var atHub []time.Duration        // arrivals of fetches at the hub, in order
	under := 0
	ask := func(now time.Duration, most int) {
		for ; under < most; under++ {
			atHub = append(atHub, now+p.trip/2)
		}
	}
	ask(0, fetches(0, nil))
	var newest, sent stored // at the hub
	next := stored{at: p.every, number: 1}
	advance := func(to time.Duration) {
		for next.at <= to {
			newest = next
			next = stored{at: time.Duration(next.number+1)*p.every + time.Duration(random.Int64N(int64(p.jitter)+1)), number: next.number + 1}
		}
	}
	var free, last, held, area time.Duration
	for now := time.Duration(0); now < to; {
		at := atHub[0]
		atHub = atHub[1:]
		if advance(at); newest.number <= sent.number {
			at = next.at
			advance(at)
		}
		sent = newest
		if free = max(free, at) + p.send; random.IntN(10) == 0 {
			free += p.stall
		}
		now = free + p.trip/2
		if last >= from {
			area += (now - last) * (last - held + now - held) / 2 / time.Microsecond
		}
		last, held = now, sent.at
		under--
		ask(now, fetches(now, &stored{at: start + sent.at, number: sent.number}))
	}
	return area / ((last - from) / time.Microsecond)
}

// by returns a function that takes the limit of fetches from c.
func (p reading) by(c *credit, acknowledge func(now time.Duration)) func(time.Duration, *stored) int {
	return func(now time.Duration, s *stored) int {
		if s != nil {
			c.frame(now, *s, p.trip)
			acknowledge(now)
		}
		return c.fetches
	}
}

func fixed(fetches int) func(time.Duration, *stored) int {
	return func(time.Duration, *stored) int { return fetches }
}

// The age at the reader is that of the best number of fetches, and a little more because of the
// tries.
func TestCreditFindsBestFetchLimit(t *testing.T) {
	const ms = time.Millisecond
	for _, p := range []reading{
		{"1 kB on 1 Mbit/s at both ends", 10300 * time.Microsecond, 10400 * time.Microsecond, 10 * ms, ms, 0},
		{"the same, a little faster to the hub", 9500 * time.Microsecond, 10400 * time.Microsecond, 10 * ms, ms, 0},
		{"the same, put by what came before", 17 * ms, 10400 * time.Microsecond, 10 * ms, ms, 0},
		{"1 kB on 1 Mbit/s, 20 ms", ms, 9 * ms, 20 * ms, 0, 0},
		{"1 kB on 1 Mbit/s, 2 ms", ms, 9 * ms, 2 * ms, 0, 0},
		{"the same, at both ends", 9 * ms, 9500 * time.Microsecond, 2 * ms, ms, 0},
		{"50 kB on 1 Mbit/s, 20 ms", 10 * ms, 400 * ms, 20 * ms, ms, 0},
		{"1 kB on 100 Mbit/s, 20 ms", ms, 100 * time.Microsecond, 20 * ms, 0, 0},
		{"64 B on 1 Mbit/s, 10 ms, with stalls", ms, 2300 * time.Microsecond, 10 * ms, 0, 15 * ms},
		{"1 kB on 100 Mbit/s, 100 ms, with stalls", ms, 100 * time.Microsecond, 100 * ms, ms, 50 * ms},
		{"1 kB on 100 Mbit/s, 100 ms, put each 10 ms", 10 * ms, 100 * time.Microsecond, 100 * ms, ms, 0},
	} {
		best, fetches := time.Hour, 0
		var all []time.Duration
		for n := 1; n <= maxFetches; n++ {
			age := p.age(30*time.Second, 60*time.Second, fixed(n))
			if all = append(all, age); age < best {
				best, fetches = age, n
			}
		}
		c := newCredit()
		got := p.age(30*time.Second, 60*time.Second, p.by(&c, func(time.Duration) {}))
		t.Logf("%s: %v; with 1, 2, 3 fetches %v", p.name, got, all)
		if got > best*11/10 {
			t.Errorf("%s: got an age of %v, want %v, as with %d fetches; with 1, 2, 3 it is %v", p.name, got, best, fetches, all)
		}
	}
}

// bothThin is a path on which a reader with one fetch is idle half of the time, and with three has
// a queue.
var bothThin = reading{every: 8740 * time.Microsecond, send: 10400 * time.Microsecond, trip: 10 * time.Millisecond, jitter: time.Millisecond}

func TestFailedFetchLimitIsNotRetriedAtOnce(t *testing.T) {
	c := newCredit()
	fell, last := 0, 0
	bothThin.age(0, 60*time.Second, bothThin.by(&c, func(now time.Duration) {
		if now > 10*time.Second && c.fetches < last {
			fell++
		}
		last = c.fetches
	}))
	if most := int(50*time.Second/creditTries) + 1; fell == 0 || fell > most {
		t.Errorf("one fetch was tried %d times in 50 s, want 1 to %d", fell, most)
	}
}

func TestFetchLimitStaysWithoutReplacedFrames(t *testing.T) {
	c := newCredit()
	for i := range 200 {
		at := time.Duration(i) * 20 * time.Millisecond
		c.frame(at+time.Duration(i%10)*3*time.Millisecond, stored{at: 1000*time.Second + at, number: uint64(i)}, 20*time.Millisecond)
	}
	if c.fetches != maxFetches {
		t.Errorf("got %d fetches, want %d", c.fetches, maxFetches)
	}
}

// The delay is measured by the hub's clock, which may be set while frames arrive.
func TestFetchLimitStaysWhenHubClockIsSet(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -30 * 365 * 24 * time.Hour, "ahead": 30 * 365 * 24 * time.Hour, "back by a minute": -time.Minute} {
		c := newCredit()
		for i := range 200 {
			now := time.Duration(i) * 20 * time.Millisecond
			at := 40*365*24*time.Hour + now - 10*time.Millisecond
			if i >= 100 {
				at += step
			}
			c.frame(now, stored{at: at, number: uint64(2 * i)}, 20*time.Millisecond)
			if c.fetches != maxFetches {
				t.Errorf("%s: got %d fetches at frame %d, want %d", name, c.fetches, i, maxFetches)
				break
			}
		}
	}
}

func TestFetchLimitWithLargeFramesIsAtLeastTwo(t *testing.T) {
	c := newCredit()
	c.beside = true
	p := reading{every: time.Millisecond, send: 9 * time.Millisecond, trip: 2 * time.Millisecond}
	p.age(0, 5*time.Second, p.by(&c, func(time.Duration) {}))
	if c.fetches != 2 {
		t.Errorf("got %d fetches, want 2: it may be the large frames for which small ones wait", c.fetches)
	}
}
