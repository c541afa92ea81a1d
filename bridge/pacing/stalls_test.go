package pacing

import (
	"testing"
	"time"

	"achbridge/bridge/delivery"
)

// standstill runs the path for length. In every period it carries nothing for stall, like a
// radio.
func (p *path) standstill(stall, period, length time.Duration) {
	for end := p.now + length; p.now < end; {
		p.free = max(p.free, p.now) + stall
		for _, f := range p.flows {
			for i := range f.flying {
				u := &f.flying[i]
				if u.arrives-oneWay > p.now { // the packet has not left the bottleneck
					u.arrives += stall
					u.Arrived += stall
					u.RTT += stall
				}
			}
		}
		p.run(period)
	}
}

func TestPacerFillsStallingPath(t *testing.T) {
	for _, c := range []struct{ stall, period time.Duration }{{5 * ms, 25 * ms}, {30 * ms, 200 * ms}, {80 * ms, 500 * ms}} {
		p, f := alone(20 * mbit)
		f.delay, f.parts = 3*ms, true
		p.standstill(c.stall, c.period, 5*time.Second)
		f.clear()
		p.standstill(c.stall, c.period, 5*time.Second)
		moves := 1 - c.stall.Seconds()/c.period.Seconds()
		if share := f.carried(p, 5*time.Second) / moves; share < 0.8 || share > 1.001 {
			t.Errorf("%v of every %v: parts got %.0f %% of what the path carried, want at least 80 %%", c.stall, c.period, 100*share)
		}
		if most := c.stall + mostAhead + 25*ms; f.longest > most {
			t.Errorf("%v of every %v: a part waited %v, want at most %v", c.stall, c.period, f.longest, most)
		}
	}
}

// A flow that fills the path hides its stalls from the other flow.
func TestPacerGetsShareBesideFillingFlow(t *testing.T) {
	p, first := alone(10 * mbit)
	first.delay, first.parts = 3*ms, true
	p.standstill(5*ms, 25*ms, 5*time.Second)
	second := &flow{size: 1000, delay: 3 * ms, parts: true}
	p.flows = append(p.flows, second)
	p.standstill(5*ms, 25*ms, 5*time.Second)
	first.clear()
	second.clear()
	p.standstill(5*ms, 25*ms, 10*time.Second)
	if share := second.carried(p, 10*time.Second) / 0.8; share < 0.25 {
		t.Errorf("the second got %.0f %% of what the path carried, want at least a quarter", 100*share)
	}
}

func TestConstantPathHasNoStalls(t *testing.T) {
	for _, rate := range []float64{1 * mbit, 10 * mbit, 100 * mbit} {
		p, f := alone(rate)
		f.delay, f.parts = 5*ms, true
		for range 100 {
			p.run(100 * ms)
			if f.pacer.stalls.isKnown {
				t.Fatalf("%.0f Mbit/s: a stall after %v, want none", rate/mbit, p.now)
			}
		}
		p.rate /= 10
		p.run(2 * time.Second)
		if f.pacer.stalls.isKnown {
			t.Errorf("%.0f Mbit/s: a path that becomes slower counts as one that stands still", rate/mbit)
		}
	}
}

// roomy is a Transport that never limits sending.
type roomy struct{}

func (roomy) Window() int             { return 1 << 20 }
func (roomy) ReceivedPackets() uint64 { return 0 }
func (roomy) RTT() time.Duration      { return rtt }

// Packets in flight when a path fails, and those sent until it recovers, queue on it.
func TestPacerSendsLittleWhileFeedbackIsOverdue(t *testing.T) {
	flight := &delivery.SentPackets{}
	flight.Begin(rtt)
	p := NewPacer(flight, roomy{}).(*Pacer)
	p.stalls.isKnown = true
	var sentAt []time.Duration
	for now := ms; now < 1040*ms; now += ms {
		if ok, _ := p.May(now, Whole, SmallFrame); ok {
			flight.Sent(now, flight.NextNumber(now), 100, 100, nil)
			p.Sent(now, Whole, 100)
			sentAt = append(sentAt, now)
		}
	}
	if n := len(sentAt); n < 20 || n > 60 {
		t.Errorf("%d packets left in a second without feedback, want 20 to 60", n)
	}
	if next := sentAt[len(sentAt)-1] - sentAt[len(sentAt)-2]; next > gapMost+ProbeInterval {
		t.Errorf("the last left %v after the one before, want at most %v: the path may be back", next, gapMost+ProbeInterval)
	}
}
