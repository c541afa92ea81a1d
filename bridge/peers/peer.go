package peers

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"achbridge/bridge/transport"
	"achbridge/bridge/via"
)

// Peer is another node that may be dialled, as the operator lists it or a host announces it.
// It says where to dial. Only a certificate proves which node answers there.
type Peer struct {
	Host   string            // announced or listed name; empty: not known
	Node   string            // announced node id in hex; empty: not known
	Addrs  []transport.Addrs // best first
	Static bool              // listed by the operator: always dialled, and not subject to MaxLinks
	// Source identifies the announcing host; several sources may claim the same node or name.
	// Empty: the operator or a domain's zone lists the peer. Announced peers are dialled
	// within a budget (claims.go).
	Source string
	// Asked: a user asked for the peer's channels, so it is dialled although no wish needs it.
	Asked bool
	// Hub: the host is at the hub, by which alone this peer is dialled; it has no addresses.
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
	met      string // host name of that node
	dial     *Dial  // under way; nil without one
	hasMoved bool   // its link leads to an address at which it is no longer listed
	failures int    // of dials, one after the other
	err      error  // why it is not linked; nil if it is, or was not dialled
	ending   ending
	endedAt  time.Duration // when its last link ended

	turn  turn    // of a peer that is only announced
	hub   hubNeed // of a host at the hub
	proof *proof  // of a node that has proved itself; nil for others
}

// ending is how the last link to a peer ended.
type ending int

const (
	unknown ending = iota // there was no link, or it had not lasted
	lost                  // it had lasted, and ended without a goodbye
	left                  // the node said goodbye
)

// forgetLoss forgets that a link to p was lost.
func (p *peer) forgetLoss() {
	if p.ending == lost {
		p.ending = unknown
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

// answered records which node has answered.
func (p *peer) answered(e End) { p.err, p.reached, p.met = nil, e.Node, e.Host }

// again resets the back-off and ends the present dial.
func (p *peer) again() {
	p.failures = 0
	p.stopDial()
}

// stopDial cancels the present dial. The dial stays the present one until its result is handed to the table.
func (p *peer) stopDial() {
	if p.dial != nil {
		p.dial.Cancel()
	}
}
