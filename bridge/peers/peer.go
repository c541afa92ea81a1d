package peers

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"achbridge/bridge/transport"
	"achbridge/bridge/via"
)

// Peer is another node that may be dialled, as the operator lists it or a host announces it.
// Only a certificate proves which node answers at the addresses.
type Peer struct {
	Host   string            // announced or listed name; empty: not known
	Node   string            // announced node id in hex; empty: not known
	Addrs  []transport.Addrs // best first
	Static bool              // listed by the operator: always dialled, and not subject to MaxLinks
	// Source identifies the announcing host; it is empty if the operator or a domain's zone lists the peer.
	// Several sources may claim the same node or name. Announced peers are dialled within a budget (claims.go).
	Source string
	// Asked is set if a user wants to see the peer's channels, so it is dialled although no rule names it.
	Asked bool
	// Hub is set for a host at the hub. Such a peer has no addresses: it is dialled only through the hub.
	Hub bool
	// Over is the only transport that a link with the peer may use; the zero value allows all.
	Over via.Kind
}

// key identifies an entry of a list. Two entries with one key differ only in their addresses.
func (p Peer) key() string {
	switch {
	case p.Hub:
		return "hub " + p.Host
	case p.Source != "":
		return fmt.Sprint(p.Source, " ", p.Node, " ", p.Host, " ", p.Addrs) // claims that differ in anything have different keys
	case p.Node != "":
		return p.Node + " " + p.Host
	case len(p.Addrs) > 0:
		return p.Addrs[0].String()
	}
	return p.Host
}

// lists reports whether a, or a part of it, is one of p's addresses.
func (p Peer) lists(a transport.Addrs) bool { return slices.ContainsFunc(p.Addrs, a.Overlaps) }

// peer is an entry of the table.
type peer struct {
	Peer
	reached  string // id of the node that answered last
	met      string // host name of the node that answered last
	dial     *Dial  // the present dial, nil without one
	hasMoved bool   // the link leads to an address at which the peer is no longer listed
	failures int    // number of failed dials in succession
	err      error  // why the peer is not linked; nil if it is linked, or was not dialled
	lastLink lastLink
	endedAt  time.Duration // when the last link ended
	dueAt    time.Duration // no dial before, unless there is a sign
	begunAt  time.Duration // when the last dial began
	signAt   time.Duration // when the last sign that the node is back was seen; 0 for none
	nextAddr int           // index of the address to dial next, if the peer is only announced

	hub   hubNeed // for a host at the hub
	proof *proof  // set for a node that has proved itself
}

// lastLink classifies how the last link to a peer ended.
type lastLink int

const (
	unsettled lastLink = iota // there was no link, or it ended at once
	lost                      // the link had lasted, and ended without a goodbye
	left                      // the node said goodbye
)

// forgetLink forgets how the last link ended, if it was in that way.
func (p *peer) forgetLink(kind lastLink) {
	if p.lastLink == kind {
		p.lastLink = unsettled
	}
}

// node returns the id of the node that p is, as far as known.
func (p *peer) node() string { return cmp.Or(p.Node, p.reached) }

// isAt reports whether p is the node at the other end of a session: by its id, or
// by its address as long as that is not known.
func (p *peer) isAt(e End) bool {
	if p.node() != "" {
		return p.node() == e.Node
	}
	return p.lists(e.At)
}

// isListedAt reports whether a session is with an address of the listed peer p. The operator
// lists addresses, so the entry is about whichever node answers there.
func (p *peer) isListedAt(e End) bool { return p.isAt(e) || p.Static && p.lists(e.At) }

// answered records the node that has answered.
func (p *peer) answered(e End) { p.err, p.reached, p.met = nil, e.Node, e.Host }

// again resets the back-off and ends the present dial.
func (p *peer) again() {
	p.failures, p.dueAt = 0, 0
	p.stopDial()
}

// due is whether, and how, to dial a peer now.
type due int

const (
	notDue  due = iota
	anyDue      // over each transport
	sctpDue     // only over SCTP, whose handshake has small packets
)

// isDue returns whether to dial p now. silent is the silent link to p, nil for none. If packets still arrive on a link
// over QUIC, but frames have been unanswered for firstPeriod, the path may carry small packets only. Then p is dialled
// over SCTP, once a silence.
func (p *peer) isDue(now time.Duration, silent *Link) due {
	switch {
	case p.isSignDue(now, silent), now >= p.dueAt && (silent == nil || now >= silent.HeardAt+firstPeriod):
		return anyDue
	case silent != nil && silent.Via == via.QUIC && now >= silent.SilentSince+firstPeriod && p.begunAt < silent.SilentSince:
		return sctpDue
	}
	return notDue
}

// isSignDue reports whether a sign permits a dial now: no dial has begun since the sign or in the last firstPeriod, and
// no packet has arrived on the link since the sign.
func (p *peer) isSignDue(now time.Duration, silent *Link) bool {
	return p.signAt > p.begunAt && now >= p.begunAt+firstPeriod && (silent == nil || p.signAt >= silent.HeardAt)
}

// stopDial cancels the present dial. It remains the present dial until Dialled is called.
func (p *peer) stopDial() {
	if p.dial != nil {
		p.dial.Cancel()
	}
}

// A handshake sends several packets of 1252 bytes each way, and a radio that fades may carry 1500 bytes a second. So a peer
// is dialled only when nothing at all was received from it for firstPeriod: after 1, 2 and 4 s, then every 4 s.
const (
	firstPeriod = time.Second
	lastPeriod  = 4 * time.Second
)

// period returns the time from the beginning of a dial to that of the next one.
func period(failures int) time.Duration { return min(firstPeriod<<min(failures, 10), lastPeriod) }

const (
	firstBackoff = 100 * time.Millisecond
	// LastBackoff is the longest wait before a host at the hub, or a host with only achd, is dialled again.
	LastBackoff = 5 * time.Second
	// hubBackoff is the longest wait before a host that had a link through the hub is dialled there again. A dial
	// costs nothing while there is no connection to the hub.
	hubBackoff = 200 * time.Millisecond
)

// Backoff returns a wait that grows with failures from 0.1 s to longest. A third of it is random, so that hosts which lost
// the same switch do not all dial in the same millisecond.
func Backoff(failures int, longest time.Duration) time.Duration {
	if failures == 0 {
		return 0
	}
	d := min(firstBackoff<<min(failures-1, 10), longest)
	return d - time.Duration(rand.Int64N(int64(d)/3))
}
