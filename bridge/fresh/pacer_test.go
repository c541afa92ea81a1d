package fresh

import (
	"testing"
	"time"
)

// path is a bottleneck of rate bytes a second behind a fixed delay, and a peer
// that reports every packet 10 ms later. It drives a Pacer as a link does.
type path struct {
	rate    float64
	pacer   Pacer
	now     time.Duration
	free    time.Duration // when the bottleneck has sent all it has
	flying  []Delivery
	inPipe  int
	sent    float64
	longest time.Duration // queue met since it was cleared
}

const (
	oneWay = 10 * time.Millisecond
	rtt    = 2 * oneWay
	// peersClock is what the peer's clock shows at our zero.
	peersClock = time.Hour
)

// run offers packets of size bytes, as many as the pacer lets through, or one
// every period.
func (p *path) run(length time.Duration, size int, period time.Duration) {
	next := p.now
	for end := p.now + length; p.now < end; p.now += 100 * time.Microsecond {
		p.report()
		for p.now >= next {
			p.pacer.Held(p.now, true)
			if p.pacer.Next(p.now) > p.now || p.inPipe+size > p.pacer.Window(rtt, 0) {
				break
			}
			if period > 0 {
				p.pacer.Held(p.now, false)
				next += period
			}
			p.send(size)
		}
	}
}

func (p *path) send(size int) {
	p.free = max(p.free, p.now)
	p.longest = max(p.longest, p.free-p.now)
	p.free += time.Duration(float64(size+headerBytes) / p.rate * float64(time.Second))
	p.flying = append(p.flying, Delivery{Size: size, Sent: p.now, Arrived: p.free + oneWay + peersClock})
	p.inPipe += size
	p.sent += float64(size + headerBytes)
	p.pacer.Sent(p.now, size)
}

// report tells the pacer what the peer's reports say by now.
func (p *path) report() {
	n := 0
	for n < len(p.flying) && p.flying[n].Arrived+oneWay <= p.now+peersClock {
		p.inPipe -= p.flying[n].Size
		n++
	}
	if n > 0 {
		p.pacer.Delivered(p.now, p.flying[:n], rtt)
		p.flying = p.flying[n:]
	}
}

// carried is the share of the path that was used since the last call.
func (p *path) carried(length time.Duration) float64 {
	share := p.sent / (p.rate * length.Seconds())
	p.sent = 0
	return share
}

const mbit = 1e6 / 8

func TestPacerFillsThePathWithoutAQueue(t *testing.T) {
	for _, rate := range []float64{0.5 * mbit, 1 * mbit, 10 * mbit, 100 * mbit} {
		p := &path{rate: rate}
		p.run(5*time.Second, 1000, 0)
		p.carried(1)
		p.longest = 0
		p.run(10*time.Second, 1000, 0)
		if share := p.carried(10 * time.Second); share < 0.90 || share > 1.001 {
			t.Errorf("%.1f Mbit/s: carried %.0f %% of what the path can, want at least 90 %%", rate/mbit, 100*share)
		}
		packet := time.Duration(1060 / rate * float64(time.Second))
		if limit := 3*packet + 5*time.Millisecond; p.longest > limit {
			t.Errorf("%.1f Mbit/s: the queue was %v long, want at most %v", rate/mbit, p.longest, limit)
		}
	}
}

func TestPacerFollowsTheRateOfThePath(t *testing.T) {
	p := &path{rate: 10 * mbit}
	p.run(5*time.Second, 1000, 0)
	p.rate = 1 * mbit
	p.longest = 0
	p.run(time.Second, 1000, 0)
	if p.longest > 300*time.Millisecond {
		t.Errorf("after the drop the queue grew to %v", p.longest)
	}
	p.longest = 0
	p.run(4*time.Second, 1000, 0)
	if p.longest > 40*time.Millisecond {
		t.Errorf("a second after the drop the queue is still %v", p.longest)
	}
	p.rate = 10 * mbit
	p.run(time.Second, 1000, 0)
	p.carried(1)
	p.run(time.Second, 1000, 0)
	if share := p.carried(time.Second); share < 0.85 {
		t.Errorf("a second after the rise %.0f %% of the path is used, want at least 85 %%", 100*share)
	}
}

func TestPacerLearnsNothingFromALightLoad(t *testing.T) {
	p := &path{rate: 100 * mbit}
	p.run(time.Second, 1000, 0)
	before := p.pacer.Rate()
	p.run(20*time.Second, 100, 10*time.Millisecond)
	if after := p.pacer.Rate(); after < before {
		t.Errorf("the rate fell from %.0f to %.0f B/s although nothing was held back", before, after)
	}
}

func TestPacerHalvesAfterABurstOfLoss(t *testing.T) {
	p := &path{rate: 10 * mbit}
	p.run(2*time.Second, 1000, 0)
	before := p.pacer.Rate()
	p.pacer.Lost(p.now)
	if after := p.pacer.Rate(); after != before/2 {
		t.Errorf("got %.0f B/s, want half of %.0f", after, before)
	}
}

func TestPacerBoundsABurst(t *testing.T) {
	p := &Pacer{}
	p.set(mostRate)
	sent := 0
	for p.Next(time.Hour) <= time.Hour {
		p.Sent(time.Hour, 1200)
		sent++
	}
	if sent > mostBurst/1200+1 {
		t.Errorf("%d packets left at once", sent)
	}
}
