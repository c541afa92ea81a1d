package pacing

import "time"

// When the next packet may leave, at the rate that Delivered has found.

// Next returns when the next packet may leave; that may be in the past.
func (p *Pacer) Next(now time.Duration) time.Duration {
	p.top(now)
	if p.credit >= 0 {
		return now
	}
	return now + time.Duration(-p.credit/p.pace(now)*float64(time.Second)) + 1
}

// spend takes a packet of size bytes that leaves at now from the credit.
func (p *Pacer) spend(now time.Duration, size int) {
	p.top(now)
	p.credit -= float64(size + headerBytes)
	p.left = now
}

// Hold says that frames wait for the pacer from now on, until Free.
func (p *Pacer) Hold(now time.Duration) {
	if p.held != 0 {
		return
	}
	p.held = now
	if now-p.freed > p.wire(p.depth()) {
		p.loaded = now
	}
}

// Free says that no frame waits for the pacer from now on. Until the next Hold the
// pacer learns nothing about what the path could carry.
func (p *Pacer) Free(now time.Duration) {
	if p.held == 0 {
		return
	}
	p.limited += now - max(p.held, p.round)
	p.held, p.freed = 0, now
}

// Window returns how many bytes may be in flight on a path of this round trip when the
// peer reports up to delay late. Beyond the first few packets the path must have
// delivered at that rate lately. So when it slows down, little more is in flight than it
// carried before.
func (p *Pacer) Window(rtt, delay time.Duration) int {
	p.start()
	late := max(delay/2, delay-rtt/4) // on long ways the average delay is enough
	way := rtt + late + 2*p.noise()   // there and back
	return max(int(min(p.rate, p.best.rate())*way.Seconds())+burstPackets*packetBytes, firstWindow)
}

// Rate returns the estimate of what the path carries, in bytes a second.
func (p *Pacer) Rate() float64 {
	p.start()
	return p.rate
}

// Path returns what the path delivered when it was last full, in bytes a second; 0 when
// it was never full, or not since a burst of loss.
func (p *Pacer) Path() float64 { return p.full }

func (p *Pacer) start() {
	if p.rate == 0 {
		p.rate = initialRate
	}
}

func (p *Pacer) set(rate float64) { p.rate = min(max(rate, leastRate), mostRate) }

// wire is how long size bytes take at the rate.
func (p *Pacer) wire(size float64) time.Duration {
	return time.Duration(size / p.rate * float64(time.Second))
}

func (p *Pacer) top(now time.Duration) {
	p.start()
	p.credit = min(p.depth(), p.credit+p.pace(now)*(now-p.filled).Seconds())
	p.filled = now
}

// depth is the most that may leave at once.
func (p *Pacer) depth() float64 {
	return min(max((burstPackets-1)*packetBytes, p.rate*burstTime.Seconds()), mostBurst)
}

func (p *Pacer) waited(now time.Duration) time.Duration {
	if p.held == 0 {
		return p.limited
	}
	return p.limited + now - max(p.held, p.round)
}

func (p *Pacer) nextRound(now time.Duration) {
	p.round, p.limited, p.seen = now, 0, 0
}
