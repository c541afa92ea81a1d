package localach

import (
	"math/rand/v2"
	"testing"
	"time"
)

// source has the times of puts: puts[i] is that of frame i+1.
type source struct{ puts []time.Duration }

// beats returns a source of n frames that begins at from.
func beats(from time.Duration, n int, interval func(i int) time.Duration) (s source) {
	at := from
	for i := range n {
		s.puts = append(s.puts, at)
		at += interval(i)
	}
	return s
}

// pollStats are statistics of how frames were noticed.
type pollStats struct {
	delay    float64 // mean time in µs from put to poll, for frames noticed after settle
	pollRate float64 // polls a second
}

// watch simulates a watcher of one channel, with predictions of phase if phases is set. Sleeps end up to 15 µs late.
func (s source) watch(phases bool, settle time.Duration) (w pollStats) {
	random := rand.New(rand.NewPCG(1, 2))
	end := s.puts[len(s.puts)-1] + 10*time.Millisecond
	slot, pace, p := slot{period: time.Millisecond}, newPace(0, 0), phase{}
	next, frames, polls := 0, 0.0, 0.0
	for now := time.Duration(0); now < end; {
		for next < len(s.puts) && s.puts[next] <= now {
			next++
		}
		slot.prevPolledAt, slot.polledAt = slot.polledAt, now
		slot.due = slot.nextPoll(now)
		polls++
		if seq := uint64(next); seq != slot.lastSeen {
			if now > settle {
				for i := slot.lastSeen; i < seq; i++ { // count all frames since the last poll
					w.delay += float64((now - s.puts[i]).Nanoseconds()) / 1000
					frames++
				}
			}
			slot.lastSeen = seq
			pace.observe(seq, now)
			slot.period = pace.period
			if phases {
				slot.expected = p.found(seq, slot.prevPolledAt, now)
			}
			slot.due = slot.nextPoll(now)
		}
		now = slot.due + time.Duration(random.Int64N(int64(15*time.Microsecond)))
	}
	w.delay /= frames
	w.pollRate = polls / end.Seconds()
	return w
}

func steady(period time.Duration) func(int) time.Duration {
	return func(int) time.Duration { return period }
}

// jittered returns intervals around a period, with puts that are off by up to share of it.
func jittered(period time.Duration, share float64) func(int) time.Duration {
	random, off := rand.New(rand.NewPCG(3, 4)), time.Duration(0)
	return func(int) time.Duration {
		was := off
		off = time.Duration((2*random.Float64() - 1) * share * float64(period))
		return period + off - was
	}
}

// slipping returns intervals of a program that sometimes puts up to half a period late, and then keeps its period from that put.
func slipping() func(int) time.Duration {
	random := rand.New(rand.NewPCG(7, 8))
	return func(int) time.Duration {
		if random.IntN(50) == 0 {
			return time.Millisecond + time.Duration(random.IntN(500))*time.Microsecond
		}
		return time.Millisecond
	}
}

// sometimesLate returns intervals of a program that puts up to 50 µs late, sometimes up to 600 µs. A late put does not delay the
// later ones.
func sometimesLate() func(int) time.Duration {
	random, off := rand.New(rand.NewPCG(9, 10)), time.Duration(0)
	return func(int) time.Duration {
		was, most := off, 50
		if random.IntN(20) == 0 {
			most = 600
		}
		off = time.Duration(random.IntN(most)) * time.Microsecond
		return time.Millisecond + off - was
	}
}

func TestPhaseFindsPeriodicFramesSoon(t *testing.T) {
	for name, c := range map[string]struct {
		interval func(int) time.Duration
		n        int
		delay    float64 // limit in µs
		polls    float64 // limit of the poll rate, as a ratio to that without predictions
	}{
		"1 kHz":                      {steady(time.Millisecond), 5000, 35, 0.5},
		"1 kHz, puts within 10 µs":   {jittered(time.Millisecond, 0.01), 5000, 40, 0.5},
		"200 Hz":                     {steady(5 * time.Millisecond), 2000, 35, 0.9},
		"200 Hz, puts within 20 µs":  {jittered(5*time.Millisecond, 0.004), 2000, 50, 0.9},
		"200 Hz, puts within 100 µs": {jittered(5*time.Millisecond, 0.02), 2000, 130, 1.1},
		"30 Hz":                      {steady(33333 * time.Microsecond), 600, 40, 1.1},
		"1.017 kHz":                  {steady(983 * time.Microsecond), 5000, 40, 0.5},
		"1 kHz, one put in 50 delays all later ones": {slipping(), 5000, 60, 0.75},
		"1 kHz, one put in 20 late":                  {sometimesLate(), 5000, 60, 0.75},
		"100 Hz with a clock 100 ppm off":            {steady(10*time.Millisecond + time.Microsecond), 2000, 40, 1.1},
	} {
		s := beats(time.Second+377*time.Microsecond, c.n, c.interval)
		fixed, locked := s.watch(false, 3*time.Second), s.watch(true, 3*time.Second)
		t.Logf("%-43s ticks %6.1f µs, %5.0f polls/s; phases %5.1f µs, %5.0f polls/s", name, fixed.delay, fixed.pollRate, locked.delay, locked.pollRate)
		if locked.delay > c.delay {
			t.Errorf("%s: got %.1f µs from put to poll on average, want at most %.0f", name, locked.delay, c.delay)
		}
		if locked.pollRate > c.polls*fixed.pollRate {
			t.Errorf("%s: got %.0f polls a second, want at most %.2f of %.0f with ticks", name, locked.pollRate, c.polls, fixed.pollRate)
		}
	}
}

// Unpredictable frames are found as soon as with ticks only, except for chance.
func TestPhaseDetectsUnpredictableFramesAsSoonAsTicks(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for name, interval := range map[string]func(int) time.Duration{
		"1 kHz, puts off by 20 %":  jittered(time.Millisecond, 0.2),
		"200 Hz, puts off by 20 %": jittered(5*time.Millisecond, 0.2),
		"a period that drifts":     func(i int) time.Duration { return 5*time.Millisecond + time.Duration(i)*100*time.Nanosecond },
		"a period that changes":    func(i int) time.Duration { return []time.Duration{5, 2, 8}[i/300%3] * time.Millisecond },
		"a pause of 10 s": func(i int) time.Duration {
			if i == 1000 {
				return 10 * time.Second
			}
			return 2 * time.Millisecond
		},
		"bursts of five": func(i int) time.Duration {
			if i%5 == 4 {
				return 20 * time.Millisecond
			}
			return 100 * time.Microsecond
		},
		"no period at all": func(int) time.Duration { return time.Duration(random.ExpFloat64() * 4e6) },
		"missed beats":     func(int) time.Duration { return time.Duration(1+random.IntN(5)/4) * 5 * time.Millisecond },
		"two publishers":   func(i int) time.Duration { return []time.Duration{1300, 3700}[i%2] * time.Microsecond },
	} {
		s := beats(time.Second+377*time.Microsecond, 3000, interval)
		fixed, locked := s.watch(false, 2*time.Second), s.watch(true, 2*time.Second)
		t.Logf("%-26s ticks %6.1f µs, %5.0f polls/s; phases %6.1f µs, %5.0f polls/s", name, fixed.delay, fixed.pollRate, locked.delay, locked.pollRate)
		if locked.delay > 1.05*fixed.delay {
			t.Errorf("%s: got %.1f µs from put to poll on average, want at most the %.1f with ticks", name, locked.delay, fixed.delay)
		}
		if locked.pollRate > 1.15*fixed.pollRate {
			t.Errorf("%s: got %.0f polls a second, want at most 1.15 of %.0f with ticks", name, locked.pollRate, fixed.pollRate)
		}
	}
}

// A poll for one channel also polls channels that are due soon, before their expected puts.
func TestPollServesSeveralChannels(t *testing.T) {
	now := time.Second
	slots := []slot{
		{lastSeq: new(uint64), due: now, period: 1250 * time.Microsecond},
		{lastSeq: new(uint64), due: now + time.Millisecond, polledAt: now - time.Millisecond, period: 1250 * time.Microsecond, expected: expected{first: now + 3*time.Millisecond, at: now + 3*time.Millisecond, sure: true}},
		{lastSeq: new(uint64), due: now + 500*time.Microsecond, polledAt: now - time.Millisecond, period: 1250 * time.Microsecond, expected: expected{first: now + 500*time.Microsecond, at: now + 500*time.Microsecond, sure: true}},
	}
	pollSlots(slots, now, -1, nil)
	for i, want := range []time.Duration{now + 1250*time.Microsecond, now + 2*time.Millisecond, now + 500*time.Microsecond} {
		if slots[i].due != want {
			t.Errorf("channel %d: next poll at %v, want %v", i, slots[i].due, want)
		}
	}
}
