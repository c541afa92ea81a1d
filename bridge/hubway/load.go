package hubway

import (
	"errors"
	"time"

	"achbridge/bridge/clock"
	"achbridge/bridge/ring"
)

// never is longer than any wait of the publisher.
const never = time.Hour

// due returns again = 0 if a frame can be sent now. Otherwise again is the time of the next check, unless the publisher
// is woken earlier. size is the size of the last sent frame, an estimate for the next one.
func (p *publisher) due(now time.Duration) (size int, again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest.size, p.wait(p.channel.arrivals.Collect(), now)
}

// wait returns the time at which a frame may be sent, 0 for now. p.mu must be held.
func (p *publisher) wait(at ring.Arrival, now time.Duration) (again time.Duration) {
	switch {
	case p.phase != publishing || p.nextPut.credit == 0 || at.Seq <= p.newest.seq && !p.newest.again:
		return now + never
	case now < p.nextPut.retryAt:
		return p.nextPut.retryAt
	case at.Seq <= p.newest.seq && now < p.newest.repeatAt:
		return p.newest.repeatAt
	case now < max(at.SlotAt, p.nextPut.freeAt):
		return max(at.SlotAt, p.nextPut.freeAt)
	}
	return 0
}

// load copies the frame to send now. If there is none, it returns nil, and again is the time of the next check unless
// the publisher is woken earlier.
func (p *publisher) load(now time.Duration) (f *sealable, again time.Duration) {
	next := p.cfg.Clock.UnseenSince(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slept()
	at := p.channel.arrivals.Collect()
	at.NextCapturedAt = next
	if again := p.wait(at, now); again > 0 {
		return nil, again
	}
	if p.command && (at.Seq <= p.sleep.undated || p.over(at.CapturedAt, now)) {
		p.pass(at.Seq, p.channel.arrivals.PassedOver(), expired)
		p.newest.again = false
		return nil, now + never
	}
	return p.copy(at, now)
}

// copy takes the frame from the snapshots shared by all links. p.mu must be held.
func (p *publisher) copy(at ring.Arrival, now time.Duration) (f *sealable, again time.Duration) {
	s, at, err := p.channel.request.Take(p.channel.copies, at, p.wakeUp)
	if s == nil && err == nil {
		return nil, now + never // the frame is being copied
	}
	if no, ok := errors.AsType[*ring.Refusal](err); ok {
		p.pass(no.Seq, p.channel.arrivals.PassedOver(), refused)
		p.problem, p.newest.again = no, false
		return nil, now + never
	}
	if err != nil {
		return nil, p.failed(err, now)
	}
	if s.Seq < p.newest.seq || s.Seq == p.newest.seq && !p.newest.again {
		s.Release()
		return nil, now + RetryAfter // the ring's numbers have gone backwards; the node's periodic check handles a reset ring
	}
	return p.begin(s, at, now), 0
}

// begin takes one credit and the current slot for snapshot s. p.mu must be held.
func (p *publisher) begin(s *ring.Snapshot, at ring.Arrival, now time.Duration) *sealable {
	captured := s.CapturedFor(p.command, at)
	_, passed := p.channel.arrivals.UseSlot(now, p.slot())
	p.nextPut.credit--
	return &sealable{Snapshot: s, key: p.key, captured: captured, isLastValue: !p.command && p.over(captured, now), passed: passed}
}

// failed records why the channel could not be read, and returns when to retry. p.mu must be held.
func (p *publisher) failed(err error, now time.Duration) time.Duration {
	p.problem, p.nextPut.retryAt = err, now+RetryAfter
	switch {
	case errors.Is(err, ring.ErrNoMemory):
		p.nextPut.retryAt = now + ring.AfterNoMemory
	case ring.IsBusy(err):
		p.nextPut.retryAt = now + ring.AfterBusy
	}
	return p.nextPut.retryAt
}

// slept marks commands as undated that were written before the host was suspended, so that they are not sent. p.mu must
// be held.
func (p *publisher) slept() {
	if total := p.cfg.Suspended(); clock.Slept(p.sleep.suspended, total) {
		p.sleep.suspended, p.sleep.undated = total, p.channel.arrivals.Newest().Seq
	}
}
