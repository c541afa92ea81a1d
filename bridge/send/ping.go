package send

import (
	"context"
	"slices"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/pacing"
)

// pings are the pings of a link that wait for an answer. The link's mu guards them.
type pings struct {
	last    uint64 // number of the newest
	waiting []*ping
}

// ping is a packet that the peer acknowledges.
type ping struct {
	number uint64
	sentAt time.Duration // 0: not yet
	answer chan Pong     // has room for one
}

// Pong is the result of a ping.
type Pong struct {
	RTT  time.Duration // does not include the time for which the peer held its report back
	Lost bool
}

// pingSub stands for pings among the pieces of a packet: no subscription has it.
const pingSub = 0

// PingTimeout is how long Ping waits at most.
const PingTimeout = time.Second

// Ping sends a small packet to the peer and waits for its acknowledgement, for PingTimeout at most.
// The error is that of ctx.
func (l *Link) Ping(ctx context.Context) (p Pong, err error) {
	l.mu.Lock()
	l.pings.last++
	waiting := &ping{number: l.pings.last, answer: make(chan Pong, 1)}
	l.pings.waiting = append(l.pings.waiting, waiting)
	l.mu.Unlock()
	l.Wake()
	p, err = AwaitPong(ctx, waiting.answer)
	l.mu.Lock()
	l.pings.end(waiting.number)
	l.mu.Unlock()
	return p, err
}

// AwaitPong waits for the answer to a ping, for PingTimeout at most. The error is that of ctx.
func AwaitPong(ctx context.Context, answer <-chan Pong) (p Pong, err error) {
	t := time.NewTimer(PingTimeout)
	defer t.Stop()
	select {
	case p = <-answer:
	case <-t.C:
		p.Lost = true
	case <-ctx.Done():
		err = ctx.Err()
	}
	return p, err
}

// add puts the pings that have not left into the datagram. If there is nothing else in it, the
// datagram has no entries.
func (p *pings) add(builder *datagramBuilder, now time.Duration) {
	for _, w := range p.waiting {
		if w.sentAt != 0 {
			continue
		}
		if len(builder.body) == 0 {
			builder.cargo = pacing.Probe
		}
		w.sentAt = now
		builder.pieces = append(builder.pieces, delivery.Piece{Sub: pingSub, Seq: w.number, Whole: true})
	}
}

// arrived handles the arrival of a ping at the peer. out is the report that says so; at prompt it
// would have come if the peer had sent it at once.
func (p *pings) arrived(number uint64, out delivery.Outcome, prompt time.Duration) {
	for _, w := range p.waiting {
		if w.number != number {
			continue
		}
		rtt, ok := out.RoundTrip(w.sentAt)
		if !ok {
			rtt = max(0, prompt-w.sentAt)
		}
		p.answer(number, Pong{RTT: rtt})
		return
	}
}

func (p *pings) answer(number uint64, pong Pong) {
	for _, w := range p.waiting {
		if w.number == number {
			w.answer <- pong
			p.end(number)
			return
		}
	}
}

func (p *pings) end(number uint64) {
	p.waiting = slices.DeleteFunc(p.waiting, func(w *ping) bool { return w.number == number })
}
