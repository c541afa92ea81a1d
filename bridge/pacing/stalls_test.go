package pacing

import (
	"testing"
	"time"

	"achbridge/bridge/delivery"
)

// standstill lets the path carry nothing for stall in every period, as one over the air.
func (p *path) standstill(stall, period, length time.Duration) {
	for end := p.now + length; p.now < end; {
		p.free = max(p.free, p.now) + stall
		for _, f := range p.flows {
			for i := range f.flying {
				u := &f.flying[i]
				if u.arrives-oneWay > p.now { // it has not left the bottleneck
					u.arrives += stall
					u.Arrived += stall
					u.RTT += stall
				}
			}
		}
		p.run(period)
	}
}

func TestPacerFillsAPathThatStandsStill(t *testing.T) {
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

// One that fills the path hides from the other how it moves.
func TestPacerTakesItsShareBesideOneThatFills(t *testing.T) {
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

// A queue of others, which is now longer and now shorter, hides how the path moves. What is
// always as long is the way itself, whatever we have come down to before that was seen.
func TestWhatIsAlwaysAsLongIsTheWay(t *testing.T) {
	for wave, isWay := range map[time.Duration]bool{0: true, 100 * time.Microsecond: true, 3 * ms: false} {
		p := &Pacer{rate: 20_000}
		p.peak.note(0, 2.5e6)
		found := false
		for now := 50 * ms; now < 2*time.Second && !found && !p.stalls.known; now += 50 * ms {
			p.round = now - 50*ms
			p.queue = 25 * ms
			if now%(100*ms) == 0 {
				p.queue += wave
			}
			found = p.crowd(now, 5*ms)
		}
		if found != isWay || p.stalls.known == isWay {
			t.Errorf("a queue that varies by %v: taken for the way: %v, for that of others: %v", wave, found, p.stalls.known)
		}
	}
}

func TestAConstantPathHasNoStalls(t *testing.T) {
	for _, rate := range []float64{1 * mbit, 10 * mbit, 100 * mbit} {
		p, f := alone(rate)
		f.delay, f.parts = 5*ms, true
		for range 100 {
			p.run(100 * ms)
			if f.pacer.stalls.known {
				t.Fatalf("%.0f Mbit/s: a stall after %v, want none", rate/mbit, p.now)
			}
		}
		p.rate /= 10
		p.run(2 * time.Second)
		if f.pacer.stalls.known {
			t.Errorf("%.0f Mbit/s: a path that becomes slower counts as one that stands still", rate/mbit)
		}
	}
}

// What is in flight when a path dies, and what follows it until it comes back, waits on it.
func TestFewPacketsFollowWhileWordIsOverdue(t *testing.T) {
	var p Pacer
	var list []delivery.Delivery
	for i := range time.Duration(20) {
		p.spend(i*ms, 100)
		list = append(list, delivery.Delivery{Size: 100, Sent: i * ms, Arrived: peersClock + i*ms + oneWay, RTT: rtt})
	}
	p.Delivered(40*ms, list, rtt)
	sent := 0
	for now := 40 * ms; now < 1040*ms; now += ms {
		if p.Spaced() <= now {
			p.spend(now, 100)
			sent++
		}
	}
	if sent < 5 || sent > 25 {
		t.Errorf("%d packets left in a second without word, want 5 to 25", sent)
	}
	if next := p.Spaced() - p.left; next > spaceMost {
		t.Errorf("the next leaves %v after the last, want at most %v: the path may be back", next, spaceMost)
	}
}

func TestLateWordThatKeepsComingIsThatOfAQueue(t *testing.T) {
	var p Pacer
	p.Overdue(0, -ms, rtt)
	p.heard = time.Second
	for _, silent := range []time.Duration{ms, max(wordGap, rtt) + ms} {
		if p.Overdue(time.Second+silent, 30*ms, rtt) {
			t.Errorf("word came %v ago on a path without stalls, but the path counts as standing still", silent)
		}
	}
	p.stalls.known = true
	if !p.Overdue(time.Second+max(wordGap, rtt)+ms, 30*ms, rtt) {
		t.Error("no word came for longer than it ever does, but the path counts as moving")
	}
	p.Overdue(time.Second, 0, rtt)
	if !p.Overdue(time.Second+ms, 30*ms, rtt) {
		t.Error("word is late on a path with stalls, but the path counts as moving")
	}
	p.heard = 3 * time.Second
	if p.Overdue(3*time.Second+ms, 30*ms, rtt) {
		t.Error("word has come late for two seconds, but the path still counts as standing still")
	}
}
