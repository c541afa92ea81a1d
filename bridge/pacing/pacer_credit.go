package pacing

import "time"

// This file has the token bucket: it decides when the next packet may be sent, at the rate
// that Delivered has found.

// Next returns when the next packet may be sent. It returns now if there is credit.
func (p *Pacer) Next(now time.Duration) time.Duration {
	p.top(now)
	if p.credit >= 0 {
		return now
	}
	return now + time.Duration(-p.credit/p.pace(now)*float64(time.Second)) + 1
}

// spend subtracts a packet of size bytes, sent at now, from the credit.
func (p *Pacer) spend(now time.Duration, size int) {
	p.top(now)
	p.credit -= float64(size + headerBytes)
	p.sentAt = now
}

// Hold records that frames wait for the pacer from now until Free.
func (p *Pacer) Hold(now time.Duration) {
	if p.waitingSince != 0 {
		return
	}
	p.waitingSince = now
	if now-p.freedAt > p.wire(p.depth()) {
		p.loaded = now
	}
}

// Free records that no frame waits for the pacer from now on. Until the next Hold the pacer
// learns nothing about the capacity of the path.
func (p *Pacer) Free(now time.Duration) {
	if p.waitingSince == 0 {
		return
	}
	p.limited += now - max(p.waitingSince, p.round)
	p.waitingSince, p.freedAt = 0, now
}

// Window returns how many bytes may be in flight on a path with this round trip, if the peer
// delays its reports by up to delay. The window does not exceed the highest recent delivery
// rate times the round trip, apart from the first few packets. So when the path slows down,
// little more is in flight than it carried before. For late reports at most mostBurst is added:
// while the peer's process waits for a CPU, all of it collects in the peer's queues.
func (p *Pacer) Window(rtt, delay time.Duration) int {
	p.start()
	late := max(delay/2, delay-rtt/4) // on long paths the average delay is enough
	late += 2 * p.noise()             // noise in both directions
	rate := min(p.rate, p.best.rate())
	extra := min(int(rate*late.Seconds())+burstPackets*packetBytes, mostBurst)
	return max(int(rate*rtt.Seconds())+extra, firstWindow)
}

// Rate returns the estimated rate of the path, in bytes a second.
func (p *Pacer) Rate() float64 {
	p.start()
	return p.rate
}

// Path returns the delivery rate when the path was last full, in bytes a second. It returns 0
// if the path was never full, or not since a burst of loss.
func (p *Pacer) Path() float64 { return p.full }

func (p *Pacer) start() {
	if p.rate == 0 {
		p.rate = initialRate
	}
}

func (p *Pacer) set(rate float64) { p.rate = min(max(rate, leastRate), mostRate) }

// wire returns the transmission time of size bytes at the current rate.
func (p *Pacer) wire(size float64) time.Duration {
	return time.Duration(size / p.rate * float64(time.Second))
}

func (p *Pacer) top(now time.Duration) {
	p.start()
	p.credit = min(p.depth(), p.credit+p.pace(now)*(now-p.filled).Seconds())
	p.filled = now
}

// depth returns the maximum number of bytes that may be sent at once.
func (p *Pacer) depth() float64 {
	return min(max((burstPackets-1)*packetBytes, p.rate*burstTime.Seconds()), mostBurst)
}

func (p *Pacer) waited(now time.Duration) time.Duration {
	if p.waitingSince == 0 {
		return p.limited
	}
	return p.limited + now - max(p.waitingSince, p.round)
}

func (p *Pacer) nextRound(now time.Duration) {
	p.round, p.limited, p.roundPackets = now, 0, 0
}
