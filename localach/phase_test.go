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
	delay     float64 // mean time in µs from put to poll, for frames noticed after settle
	pollRate  float64 // polls a second
	busyShare float64 // share of the time in busy polling
}

// watch simulates a watcher of one channel, with or without phases. A poll takes 1 µs, and the sleep before a window ends up to
// 15 µs late.
func (s source) watch(phases bool, settle time.Duration) (w pollStats) {
	random := rand.New(rand.NewPCG(1, 2))
	end := s.puts[len(s.puts)-1] + 10*time.Millisecond
	slot, pace, p := slot{period: time.Millisecond}, newPace(0, 0), phase{}
	next, frames, polls, spun := 0, 0.0, 0.0, time.Duration(0)
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
				slot.window = p.found(seq, slot.prevPolledAt, now)
			}
			slot.due = slot.nextPoll(now)
		}
		if slot.due <= now {
			slot.due = now + time.Microsecond
			spun += time.Microsecond
		} else {
			slot.due += time.Duration(random.Int64N(int64(15 * time.Microsecond)))
		}
		now = slot.due
	}
	w.delay /= frames
	w.pollRate, w.busyShare = polls/end.Seconds(), spun.Seconds()/end.Seconds()
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

func TestPhaseFindsPeriodicFramesSoon(t *testing.T) {
	for name, c := range map[string]struct {
		interval func(int) time.Duration
		n        int
		most     float64 // limit of the delay in µs
		share    float64 // limit of the delay relative to that without phases
	}{
		"1 kHz":                           {steady(time.Millisecond), 5000, 12, 0.15},
		"1 kHz, puts within 10 µs":        {jittered(time.Millisecond, 0.01), 5000, 15, 0.2},
		"200 Hz":                          {steady(5 * time.Millisecond), 2000, 15, 0.05},
		"200 Hz, puts within 20 µs":       {jittered(5*time.Millisecond, 0.004), 2000, 30, 0.1},
		"200 Hz, puts within 100 µs":      {jittered(5*time.Millisecond, 0.02), 2000, 120, 0.2},
		"30 Hz":                           {steady(33333 * time.Microsecond), 600, 60, 0.1},
		"1.017 kHz":                       {steady(983 * time.Microsecond), 5000, 12, 0.15},
		"100 Hz with a clock 100 ppm off": {steady(10*time.Millisecond + time.Microsecond), 2000, 25, 0.1},
	} {
		s := beats(time.Second+377*time.Microsecond, c.n, c.interval)
		fixed, locked := s.watch(false, 3*time.Second), s.watch(true, 3*time.Second)
		t.Logf("%-32s ticks %6.1f µs, %5.0f looks/s; phases %5.1f µs, spins %.2f %%", name, fixed.delay, fixed.pollRate, locked.delay, 100*locked.busyShare)
		if locked.delay > c.most || locked.delay > c.share*fixed.delay {
			t.Errorf("%s: got %.1f µs from put to look on average, want at most %.0f and %.2f of %.1f with ticks", name, locked.delay, c.most, c.share, fixed.delay)
		}
		if locked.busyShare > 0.06 {
			t.Errorf("%s: got %.3f of a core spent without pause, want at most 0.06", name, locked.busyShare)
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
		t.Logf("%-26s ticks %6.1f µs, phases %6.1f µs, spins %.2f %%, %5.0f looks/s after %5.0f", name, fixed.delay, locked.delay, 100*locked.busyShare, locked.pollRate, fixed.pollRate)
		if locked.delay > 1.05*fixed.delay {
			t.Errorf("%s: got %.1f µs from put to look on average, want at most the %.1f with ticks", name, locked.delay, fixed.delay)
		}
	}
}
