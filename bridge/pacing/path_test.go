package pacing

import (
	"math/rand/v2"
	"time"

	"achbridge/bridge/delivery"
)

const ms = time.Millisecond

// path simulates a bottleneck of rate bytes a second with a fixed delay. Each of its flows
// drives a Pacer as a link does.
type path struct {
	rate   float64
	extra  time.Duration // one-way delay beyond oneWay
	chance time.Duration // largest random extra delay; packets keep their order
	luck   *rand.Rand
	last   time.Duration // arrival of the last packet
	now    time.Duration
	free   time.Duration // when the bottleneck will have sent its whole queue
	flows  []*flow
}

// flow sends packets of size bytes, one every period, or as its pacer permits if period is 0.
// The peer reports each packet after delay, or as soon as sixteen have arrived.
type flow struct {
	size   int
	period time.Duration
	delay  time.Duration
	parts  bool    // the packets are parts of large frames
	drift  float64 // drift of the peer's clock, seconds a second
	pacer  Pacer

	next    time.Duration // when the next periodic packet is due
	flying  []underWay
	inPipe  int
	sent    float64
	longest time.Duration // longest queueing delay since clear
	longer  time.Duration // additional path delay that the pacer has detected
}

type underWay struct {
	delivery.Delivery
	arrives time.Duration // arrival at the peer by our clock
}

const (
	oneWay = 10 * time.Millisecond
	rtt    = 2 * oneWay
	mbit   = 1e6 / 8
	// peersClock is the time of the peer's clock when ours is zero.
	peersClock = time.Hour
	step       = 100 * time.Microsecond
)

// alone returns a path with one flow of packets of 1000 bytes.
func alone(rate float64) (*path, *flow) {
	f := &flow{size: 1000}
	return &path{rate: rate, flows: []*flow{f}}, f
}

func (p *path) run(length time.Duration) {
	for end := p.now + length; p.now < end; p.now += step {
		for _, f := range p.flows {
			f.report(p.now)
			f.offer(p)
		}
	}
}

func (f *flow) offer(p *path) {
	if f.period == 0 || f.next == 0 {
		f.next = p.now
	}
	for p.now >= f.next {
		f.pacer.Hold(p.now)
		if f.pacer.Next(p.now) > p.now || f.inPipe > 0 && f.inPipe+f.size > f.window() {
			return
		}
		if f.period > 0 {
			f.pacer.Free(p.now)
			f.next += f.period
		}
		f.send(p)
	}
}

func (f *flow) send(p *path) {
	p.free = max(p.free, p.now)
	f.longest = max(f.longest, p.free-p.now)
	p.free += time.Duration(float64(f.size+headerBytes) / p.rate * float64(time.Second))
	arrives := max(p.last, p.free+oneWay+p.extra+p.draw())
	p.last = arrives
	shown := peersClock + arrives + time.Duration(float64(arrives)*f.drift)
	f.flying = append(f.flying, underWay{delivery.Delivery{Size: f.size, Sent: p.now, Arrived: shown, RTT: arrives + oneWay - p.now}, arrives})
	f.inPipe += f.size
	f.sent += float64(f.size + headerBytes)
	if f.parts {
		f.pacer.partSentAt = p.now
	}
	f.pacer.spend(p.now, f.size)
}

// draw returns a random extra delay.
func (p *path) draw() time.Duration {
	if p.chance == 0 {
		return 0
	}
	if p.luck == nil {
		p.luck = rand.New(rand.NewPCG(1, 1))
	}
	return time.Duration(p.luck.Int64N(int64(p.chance)))
}

func (f *flow) window() int {
	if f.parts {
		return f.pacer.PartWindow(rtt+f.longer, f.delay)
	}
	return f.pacer.Window(rtt+f.longer, f.delay)
}

// reportPackets is the number of packets that the peer reports at once (package delivery).
const reportPackets = 16

// report passes the peer's reports that have arrived by now to the pacer.
func (f *flow) report(now time.Duration) {
	n := 0 // packets that have arrived and whose report may be here
	for n < len(f.flying) && f.flying[n].arrives+oneWay <= now {
		n++
	}
	if n == 0 || n < reportPackets && f.flying[0].arrives+oneWay+f.delay > now {
		return
	}
	var list []delivery.Delivery
	for _, d := range f.flying[:n] {
		list = append(list, d.Delivery)
		f.inPipe -= d.Size
	}
	f.flying = f.flying[len(list):]
	f.longer += f.pacer.Delivered(now, list, rtt+f.longer)
}

// clear resets the measurements.
func (f *flow) clear() { f.sent, f.longest = 0, 0 }

// carried returns the share of the path's rate that the flow used since clear, over length.
func (f *flow) carried(p *path, length time.Duration) float64 {
	return f.sent / (p.rate * length.Seconds())
}
