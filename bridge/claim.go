package bridge

import (
	"slices"
	"strings"
	"time"

	"achbridge/bridge/logline"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
)

// Any host on the network can announce any number of nodes, also at addresses of other hosts,
// and each dial sends half a dozen packets there. So dials to peers that are only announced
// share a budget: a few at once, then a few a second. Each dial is to one address, and the
// sources of announcements take turns. A dial that finds the announced node gives its share
// back, since only a member of the network can answer so. So twenty robots that are switched
// on together are linked as fast as they answer. Listed and proved peers need no budget.
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

// claim is the state of a peer that is only announced.
type claim struct {
	next int             // index of the address to dial next
	due  time.Duration   // earliest time for that dial
	at   transport.Addrs // the address of the present or the last dial
}

// allowance lets something happen burst times at once, and then once in every. It is not a rate.Limiter, since a dial to a real
// peer is given back.
type allowance struct {
	burst int
	every time.Duration
	full  time.Duration // when all burst are there again
}

// take takes one if it is there now.
func (a *allowance) take(now time.Duration) bool {
	if !a.has(now) {
		return false
	}
	a.full = max(a.full, now) + a.every
	return true
}

// has reports whether there is one now.
func (a *allowance) has(now time.Duration) bool {
	return max(a.full, now)+a.every-now <= time.Duration(a.burst)*a.every
}

// giveBack undoes a take.
func (a *allowance) giveBack() { a.full -= a.every }

// claimDials is the budget. It belongs to the node's goroutine.
type claimDials struct {
	budget  allowance
	lines   logline.Limit     // log lines about announced peers that cannot be reached
	count   uint64            // of dials, in this run
	turns   map[string]uint64 // the last dial of each source, by its number
	waiting bool              // a peer waits for the budget
}

func newClaimDials() claimDials {
	return claimDials{
		budget: allowance{burst: claimsAtOnce, every: claimEvery},
		lines:  logline.Limit{Burst: claimLines, Period: claimLinesEvery},
		turns:  make(map[string]uint64),
	}
}

// claimKey identifies a claim: peers that differ in anything have different keys.
func (p Peer) claimKey() string {
	var b strings.Builder
	for _, s := range []string{p.Source, p.Node, p.Host} {
		b.WriteString(s)
		b.WriteByte(' ')
	}
	for _, a := range p.Addrs {
		b.WriteString(a.String())
		b.WriteByte(' ')
	}
	return b.String()
}

// candidate is a wanted claim. old is the silent link to its node, nil for none. addrs are
// the addresses to dial, at least one.
type candidate struct {
	p     *peer
	old   *link
	addrs []transport.Addrs
}

// later reports whether p is only announced and must wait for the budget.
func (n *Node) later(p *peer) bool {
	if p.Source == "" || p.stop != nil {
		return false
	}
	if now := n.now(); now < p.due || !n.dials.budget.has(now) {
		n.dials.waiting = true
		return true
	}
	return false
}

// dialClaims dials as many of the list as there is budget for.
func (n *Node) dialClaims(list []candidate) {
	for len(list) > 0 && n.dials.budget.take(n.now()) {
		i := n.dials.choose(list)
		c := list[i]
		list = slices.Delete(list, i, i+1)
		c.p.at = c.addrs[c.p.next%len(c.addrs)]
		if n.dialling(c.p) {
			n.dials.budget.giveBack()
			continue
		}
		n.dials.note(c.p.Source)
		c.p.next++
		n.startDial(c.p, c.old, []transport.Addrs{c.p.at}, 0)
	}
	n.dials.waiting = n.dials.waiting || len(list) > 0
}

// apartFrom reports whether p and other are claims that are dialled at different addresses.
// Then neither waits for the other, even if both claim to be one node. Otherwise a forged
// announcement with a robot's id would delay the dial to the robot.
func (p *peer) apartFrom(other *peer) bool {
	return p.Source != "" && other.Source != "" && !p.at.Equal(other.at)
}

// choose returns the index of the claim to dial next; list is in random order. It alternates
// between a claim of a source that was never dialled, and one of the source that was dialled
// longest ago. So neither a flood of new sources nor many old ones can keep a robot waiting for
// long.
func (d *claimDials) choose(list []candidate) (best int) {
	rank := func(c candidate) uint64 {
		turn := d.turns[c.p.Source]
		if turn == 0 && d.count%2 == 1 {
			return d.count // after all others
		}
		return turn
	}
	for i, c := range list {
		if a, b := rank(c), rank(list[best]); a < b || a == b && c.p.next < list[best].p.next {
			best = i
		}
	}
	return best
}

// note remembers that a source has had its turn.
func (d *claimDials) note(source string) {
	d.count++
	if d.turns[source] = d.count; len(d.turns) <= maxSources {
		return
	}
	for s, turn := range d.turns {
		if turn+maxSources/2 < d.count {
			delete(d.turns, s)
		}
	}
}

// settleClaim handles the result of a dial to the claim p. old is the silent link because of
// which p was dialled, nil for none.
func (n *Node) settleClaim(p *peer, old *link, s *transport.Session) {
	if p.Source == "" {
		return
	}
	if s != nil && s.Peer().Node.String() == p.Node {
		n.dials.budget.giveBack()
		return
	}
	if p.next%max(1, len(p.Addrs)) == 0 {
		p.failures++ // the caller does the same, but later
		p.due = n.now() + n.backoff(p, old)
		p.failures--
	}
}

// mayTell reports whether to log that p cannot be reached.
func (n *Node) mayTell(p *peer) bool {
	if p.Source == "" {
		return true
	}
	_, due := n.dials.lines.Cause(n.now())
	return due
}

// onePerHost joins peers with the same node and name, since a robot is announced on each
// interface and address family.
func onePerHost(list []status.Peer) []status.Peer {
	type key struct{ node, host string }
	first := make(map[key]int, len(list))
	hosts := []status.Peer{}
	for _, p := range list {
		k := key{p.Node, p.Host}
		i, known := first[k]
		if !known || p.Node == "" {
			first[k] = len(hosts)
			hosts = append(hosts, p)
			continue
		}
		h := &hosts[i]
		for _, a := range p.Addrs {
			if !slices.Contains(h.Addrs, a) {
				h.Addrs = append(h.Addrs, a)
			}
		}
		if rank := slices.Index(status.PeerStates, p.State); rank < slices.Index(status.PeerStates, h.State) {
			h.State, h.Error, h.Cause, h.OwnCertificate = p.State, p.Error, p.Cause, p.OwnCertificate
		}
		if h.State != status.PeerLinked && h.Error == "" {
			h.Error, h.Cause, h.OwnCertificate = p.Error, p.Cause, p.OwnCertificate
		}
	}
	return hosts
}
