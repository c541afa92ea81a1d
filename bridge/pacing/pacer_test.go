package pacing

import (
	"os"
	"testing"
	"time"
)

func TestPacerFillsThePathWithoutAQueue(t *testing.T) {
	for _, rate := range []float64{0.5 * mbit, 1 * mbit, 10 * mbit, 100 * mbit} {
		for _, delay := range []time.Duration{0, 5 * ms} {
			p, f := alone(rate)
			f.delay = delay
			p.run(5 * time.Second)
			f.clear()
			p.run(10 * time.Second)
			if share := f.carried(p, 10*time.Second); share < 0.85 || share > 1.001 {
				t.Errorf("%.1f Mbit/s, reported after %v: carried %.0f %% of what the path can, want at least 85 %%", rate/mbit, delay, 100*share)
			}
			packet := time.Duration(1060 / rate * float64(time.Second))
			if limit := 3*packet + 5*time.Millisecond; f.longest > limit {
				t.Errorf("%.1f Mbit/s, reported after %v: the queue was %v long, want at most %v", rate/mbit, delay, f.longest, limit)
			}
		}
	}
}

func TestPacersShareAPath(t *testing.T) {
	for _, c := range []struct {
		rate float64
		most float64 // the larger share
	}{{2 * mbit, 0.55}, {10 * mbit, 0.58}, {100 * mbit, 0.58}} {
		for late := range time.Duration(8) {
			first, second := &flow{size: 1000, delay: 5 * ms}, &flow{size: 1000, delay: 5 * ms}
			p := &path{rate: c.rate, flows: []*flow{first}}
			p.run(5*time.Second + late*13*ms)
			p.flows = append(p.flows, second)
			p.run(5 * time.Second)
			first.clear()
			second.clear()
			p.run(20 * time.Second)
			a, b := first.carried(p, 20*time.Second), second.carried(p, 20*time.Second)
			if larger := max(a, b) / (a + b); larger > c.most || a+b < 0.90 {
				t.Errorf("%.0f Mbit/s: the first carried %.0f %%, the second %.0f %%, want shares of at most %.0f %% and 90 %% together",
					c.rate/mbit, 100*a, 100*b, 100*c.most)
			}
		}
	}
}

func TestPacerIgnoresClockDrift(t *testing.T) {
	const length = 5 * time.Minute
	rates := []float64{1 * mbit, 10 * mbit}
	if os.Getenv("ACHBRIDGE_LONG") == "1" {
		rates = append(rates, 100*mbit)
	}
	for _, rate := range rates {
		run := func(drift float64) (share float64, longest time.Duration) {
			p, f := alone(rate)
			f.delay, f.drift = 5*ms, drift
			p.run(5 * time.Second)
			f.clear()
			p.run(length)
			return f.carried(p, length), f.longest
		}
		share, longest := run(0)
		for _, drift := range []float64{-100e-6, 100e-6} {
			if got, queue := run(drift); got < 0.97*share || queue > longest+longest/4+ms {
				t.Errorf("%.0f Mbit/s, %+.0f ppm: carried %.1f %% with a queue of at most %v, want %.1f %% and %v as without drift",
					rate/mbit, drift*1e6, 100*got, queue, 100*share, longest)
			}
		}
	}
}

func TestPacerFollowsTheRateOfThePath(t *testing.T) {
	p, f := alone(10 * mbit)
	p.run(5 * time.Second)
	p.rate = 1 * mbit
	f.clear()
	p.run(time.Second)
	if f.longest > 300*time.Millisecond {
		t.Errorf("after the drop the queue grew to %v", f.longest)
	}
	f.clear()
	p.run(4 * time.Second)
	if f.longest > 40*time.Millisecond {
		t.Errorf("a second after the drop the queue is still %v", f.longest)
	}
	p.rate = 10 * mbit
	p.run(time.Second)
	f.clear()
	p.run(time.Second)
	if share := f.carried(p, time.Second); share < 0.85 {
		t.Errorf("a second after the rise %.0f %% of the path is used, want at least 85 %%", 100*share)
	}
}

// The delay of a path grows when the robot moves to another access point, or into a tunnel.
// The additional delay looks like a queue that does not drain.
func TestPacerFollowsLongerPath(t *testing.T) {
	for _, rate := range []float64{1 * mbit, 10 * mbit, 100 * mbit} {
		for _, extra := range []time.Duration{5 * ms, 20 * ms, 50 * ms} {
			p, f := alone(rate)
			f.delay = 3 * ms
			p.run(5 * time.Second)
			p.extra = extra
			p.run(time.Second)
			f.clear()
			p.run(2 * time.Second)
			if share := f.carried(p, 2*time.Second); share < 0.75 {
				t.Errorf("%.0f Mbit/s: a second after the way has become %v longer %.0f %% of the path is used, want at least 75 %%", rate/mbit, extra, 100*share)
			}
			packet := time.Duration(1060 / rate * float64(time.Second))
			if limit := 4*packet + 5*time.Millisecond; f.longest > limit {
				t.Errorf("%.0f Mbit/s: the way has become %v longer: the queue was %v long then, want at most %v", rate/mbit, extra, f.longest, limit)
			}
		}
	}
}

// In a fade, packets wait in the queue for seconds. This delay is no sign of a longer path.
func TestFadeIsNotALongerPath(t *testing.T) {
	for _, rate := range []float64{1 * mbit, 10 * mbit} {
		p, f := alone(rate)
		f.delay, f.period = 3*ms, 5*ms
		p.run(5 * time.Second)
		p.rate = 1500
		p.run(10 * time.Second)
		if f.longer != 0 {
			t.Errorf("%.0f Mbit/s fell to 12 kbit/s: the pacer treats the path as %v longer", rate/mbit, f.longer)
		}
	}
}

// The pause between probes is a multiple of the round-trip time, also after that became shorter.
func TestPacerProbesSoonAfterPathBecameShorter(t *testing.T) {
	p, f := alone(1 * mbit)
	f.delay = 3 * ms
	p.extra = 3 * time.Second
	f.longer = 6 * time.Second
	p.run(60 * time.Second)
	p.extra, f.longer, p.rate = 0, 0, 10*mbit
	p.run(4 * time.Second)
	f.clear()
	p.run(time.Second)
	if share := f.carried(p, time.Second); share < 0.75 {
		t.Errorf("4 s after a path of 6 s has become short: %.0f %% of the path is used, want at least 75 %%", 100*share)
	}
}

// A path may become longer and slower at once. Then there is a real queue too.
func TestPacerFollowsLongerAndSlowerPath(t *testing.T) {
	for _, rate := range []float64{2 * mbit, 5 * mbit, 10 * mbit} {
		for _, extra := range []time.Duration{20 * ms, 50 * ms} {
			p, f := alone(20 * mbit)
			f.delay = 3 * ms
			p.run(5 * time.Second)
			p.rate, p.extra = rate, extra
			p.run(3 * time.Second)
			f.clear()
			p.run(3 * time.Second)
			if share := f.carried(p, 3*time.Second); share < 0.90 || f.longest > 25*ms {
				t.Errorf("%v longer and %.0f Mbit/s instead of 20: carried %.0f %% with a queue of at most %v, want at least 90 %% and at most 25 ms", extra, rate/mbit, 100*share, f.longest)
			}
			if miss := (f.longer - extra).Abs(); miss > extra/5 {
				t.Errorf("the way was found to be %v longer, want %v within a fifth", f.longer, extra)
			}
		}
	}
}

func TestPacerKeepsRateUnderLightLoad(t *testing.T) {
	p, f := alone(100 * mbit)
	p.run(time.Second)
	before := f.pacer.Rate()
	f.size, f.period = 100, 10*ms
	p.run(20 * time.Second)
	if after := f.pacer.Rate(); after < before {
		t.Errorf("the rate fell from %.0f to %.0f B/s although nothing was held back", before, after)
	}
}

func TestPacerHalvesAfterABurstOfLoss(t *testing.T) {
	p, f := alone(10 * mbit)
	p.run(2 * time.Second)
	before := f.pacer.Rate()
	f.pacer.Lost(p.now)
	if after := f.pacer.Rate(); after != before/2 {
		t.Errorf("got %.0f B/s, want half of %.0f", after, before)
	}
}

func TestPacerBoundsABurst(t *testing.T) {
	p := &Pacer{}
	p.set(mostRate)
	sent := 0
	for p.Next(time.Hour) <= time.Hour {
		p.spend(time.Hour, 1200)
		sent++
	}
	if sent > mostBurst/1200+1 {
		t.Errorf("%d packets left at once", sent)
	}
}

// A peer on a fast LAN that does not get a CPU for some milliseconds sends no report, and takes no packets from its
// queues, which hold 64 to 128 of them.
func TestWindowOnFastLANIsShort(t *testing.T) {
	p := &Pacer{}
	p.set(125e6)
	p.best.note(0, 125e6)
	const rtt, delay = 250 * time.Microsecond, 3 * time.Millisecond
	if got, most := p.Window(rtt, delay), int(125e6*rtt.Seconds())+mostBurst; got > most {
		t.Errorf("Window = %d bytes, want at most %d", got, most)
	}
}
