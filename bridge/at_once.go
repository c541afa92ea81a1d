package bridge

import (
	"sync/atomic"
	"time"
)

// aside is the datagrams that leave past the pump.
type aside struct {
	busy   atomic.Bool // they are being sent
	count  int         // of those in memory that are
	memory [mostAside][]byte
}

const (
	// mostUnreported is how many packets the peer may not have reported yet when one leaves
	// past the pump. The transport's queue has no more, and SendDatagram blocks when that has 32.
	mostUnreported = 16
	// mostAside is how many packets leave past the pump at once, and asideBytes the size of the
	// frame that makes them: some 20 µs of work for the goroutine that looks at all channels.
	mostAside  = 8
	asideBytes = 7 << 10
	// flowing is for how long after a packet left the pump looks often enough that
	// sendAtOnce need not wake it for a packet that may get lost.
	flowing = time.Second
)

// sendAtOnce sends the frame that its caller has just seen in sub's channel, and what else is
// to be sent, which spares it the waking of the pump. more is how many calls for other
// channels follow at once: small frames of several share a datagram, which is the pump's to
// make. It waits for nothing: unless the link is idle and takes the frame now, it returns
// false, and the pump has to send it, or what is left.
func (l *link) sendAtOnce(sub *subscription, more int) bool {
	if !l.mu.TryLock() {
		return false
	}
	filled, armed := l.fillAside(sub, more, l.n.now())
	l.mu.Unlock()
	if !filled {
		return false
	}
	defer l.aside.busy.Store(false)
	for _, packet := range l.aside.memory[:l.aside.count] {
		if l.s.SendDatagram(packet) != nil {
			return false
		}
	}
	return armed
}

// fillAside makes datagrams while the pump is parked. armed reports that nothing
// else is to be sent, and that the pump looks again soon enough. Needs l.mu.
func (l *link) fillAside(sub *subscription, more int, now time.Duration) (filled, armed bool) {
	if !l.parked || l.filler.on(now) || !sub.aside(more) || l.flight.Unreported() >= mostUnreported || !l.aside.busy.CompareAndSwap(false, true) {
		return false, false
	}
	a, look := &l.aside, l.look
	for a.count = 0; a.count < mostAside && l.flight.Unreported() < mostUnreported; a.count++ {
		packet, _ := l.compose(now)
		if packet == nil {
			armed = l.look >= look && len(l.box.queue.entries) == 0
			l.look = min(l.look, look)
			break
		}
		a.memory[a.count] = append(a.memory[a.count][:0], packet...)
	}
	filled = a.count > 0
	if !filled {
		a.busy.Store(false)
	}
	return filled, armed
}

// aside reports that what comes next may leave past the pump.
func (sub *subscription) aside(more int) bool {
	if sub.small() {
		return more == 0
	}
	return sub.size <= asideBytes && sub.every == nil
}

// idles reports that a report has left the pump, which is parked, nothing to send, and that it
// looks again soon enough. Needs l.mu.
func (l *link) idles(now time.Duration) bool {
	if !l.parked || l.filler.on(now) {
		return false
	}
	l.fillQueue(&l.box.queue, now)
	return len(l.box.queue.entries) == 0 && now+l.nextLook(l.look, now) >= l.look
}
