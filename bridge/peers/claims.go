package peers

import (
	"slices"
	"time"

	"achbridge/bridge/logline"
	"achbridge/bridge/transport"
)

// Any host on the network can announce any number of nodes, also at addresses of other hosts, and each dial sends about
// six packets there. So dials to peers that are only announced share a budget: a few at once, then a few a second. Each
// dial is to one address, and the sources of announcements take turns. A dial that reaches the announced node is not
// charged, since only a member of the network can complete the handshake. So twenty robots that are switched on together
// are linked as fast as they answer. Listed and proved peers need no budget.
const (
	claimsAtOnce = 8
	claimEvery   = 250 * time.Millisecond

	maxSources = 4096 // sources whose last turn is remembered
)

// Lines in the log about announced peers that cannot be reached.
const (
	claimLines      = 16
	claimLinesEvery = 10 * time.Second
)

// claims is the budget of dials to peers that are only announced.
type claims struct {
	budget rateLimiter
	lines  logline.Limit     // log lines about announced peers that cannot be reached
	count  uint64            // number of dials
	turns  map[string]uint64 // the last dial of each source, by its number
}

func newClaims() claims {
	return claims{
		budget: rateLimiter{burst: claimsAtOnce, every: claimEvery},
		lines:  logline.Limit{Burst: claimLines, Period: claimLinesEvery},
		turns:  make(map[string]uint64),
	}
}

// rateLimiter allows burst events at once, then one per every. It is not a rate.Limiter, because the dial to a real peer
// is given back.
type rateLimiter struct {
	burst int
	every time.Duration
	full  time.Duration // when all burst events are available again
}

// take takes one event if one is available now.
func (a *rateLimiter) take(now time.Duration) bool {
	if !a.has(now) {
		return false
	}
	a.full = max(a.full, now) + a.every
	return true
}

// has reports whether an event is available now.
func (a *rateLimiter) has(now time.Duration) bool {
	return max(a.full, now)+a.every-now <= time.Duration(a.burst)*a.every
}

// giveBack undoes a take.
func (a *rateLimiter) giveBack() { a.full -= a.every }

// candidate is a wanted claim. silent is the silent link to its node, nil for none. addrs are
// the addresses to dial, at least one.
type candidate struct {
	p      *peer
	silent *Link
	addrs  []transport.Addrs
}

// dialClaims begins as many dials of the list as there is budget for.
func (t *Table) dialClaims(now time.Duration, list []candidate) (dials []*Dial) {
	for len(list) > 0 && t.claims.budget.take(now) {
		i := t.claims.choose(list)
		c := list[i]
		list = slices.Delete(list, i, i+1)
		at := c.addrs[c.p.nextAddr%len(c.addrs)]
		if t.isDialled(c.p, at) {
			t.claims.budget.giveBack()
			continue
		}
		t.claims.note(c.p.Source)
		c.p.nextAddr++
		dials = append(dials, t.dial(now, c.p, c.silent, []transport.Addrs{at}))
	}
	t.waits = t.waits || len(list) > 0
	return dials
}

// choose returns the index of the claim to dial next; list is in random order. It alternates between a claim of a source
// that was never dialled and one of the source that was dialled longest ago. So neither a flood of new sources nor many
// old ones can delay a robot for long.
func (c *claims) choose(list []candidate) (best int) {
	rank := func(x candidate) uint64 {
		turn := c.turns[x.p.Source]
		if turn == 0 && c.count%2 == 1 {
			return c.count // after all others
		}
		return turn
	}
	for i, x := range list {
		if a, b := rank(x), rank(list[best]); a < b || a == b && x.p.nextAddr < list[best].p.nextAddr {
			best = i
		}
	}
	return best
}

// note remembers that a source has had its turn.
func (c *claims) note(source string) {
	c.count++
	if c.turns[source] = c.count; len(c.turns) <= maxSources {
		return
	}
	for s, turn := range c.turns {
		if turn+maxSources/2 < c.count {
			delete(c.turns, s)
		}
	}
}

// settleClaim gives the budget of a dial back if the announced node has answered. If not, it delays the next round of
// the peer's addresses.
func (t *Table) settleClaim(now time.Duration, d *Dial, s *End) {
	p := d.peer
	if p.Source == "" {
		return
	}
	if s != nil && s.Node == p.Node {
		t.claims.budget.giveBack()
		return
	}
	if p.nextAddr%max(1, len(p.Addrs)) == 0 {
		p.dueAt = now + period(p.failures)
	}
}

// mayLog reports whether to log that p cannot be reached.
func (c *claims) mayLog(now time.Duration, p *peer) bool {
	if p.Source == "" || p.Hub {
		return true
	}
	_, due := c.lines.Cause(now)
	return due
}
