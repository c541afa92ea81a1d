package localach

import (
	"testing"
	"time"
)

// run simulates a channel with one frame per interval, which is polled with p's period.
func (p *pace) run(from, to, interval time.Duration) {
	seq := p.seq
	first := from
	for now := from; now < to; now += p.period {
		if newest := seq + uint64((now-first)/interval); newest != p.seq {
			p.observe(newest, now)
		}
		p.silent(now)
	}
}

func TestPollIntervalAdaptsToFrameRate(t *testing.T) {
	for _, c := range []struct{ interval, min, max time.Duration }{
		{100 * time.Microsecond, pollFastest, pollFastest},
		{time.Millisecond, 200 * time.Microsecond, 320 * time.Microsecond},
		{4 * time.Millisecond, 750 * time.Microsecond, 1300 * time.Microsecond},
		{100 * time.Millisecond, pollSlowest, pollSlowest},
	} {
		p := newPace(0, 0)
		p.run(0, 3*time.Second, c.interval)
		if p.period < c.min || p.period > c.max {
			t.Errorf("a frame per %v: got period %v, want %v to %v", c.interval, p.period, c.min, c.max)
		}
	}
}

func TestPaceSlowsDownInSilence(t *testing.T) {
	p := newPace(0, 0)
	p.run(0, time.Second, time.Millisecond)
	p.run(time.Second, 2*time.Second, time.Hour)
	if p.period != pollSlowest {
		t.Errorf("after a second of silence: got period %v, want %v", p.period, pollSlowest)
	}
	p.run(2*time.Second, 2*time.Second+100*time.Millisecond, time.Millisecond)
	if p.period > 350*time.Microsecond {
		t.Errorf("100 ms after 1 kHz came back: got period %v, want about 250 µs", p.period)
	}
}

func TestPaceAcceptsDecreasedSequence(t *testing.T) {
	p := newPace(1000, 0)
	p.observe(3, time.Millisecond)
	if p.period < pollFastest || p.period > pollSlowest {
		t.Errorf("got period %v", p.period)
	}
}
