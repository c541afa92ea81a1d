package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
)

// Config describes the node of a table.
type Config struct {
	Node   string                       // its id in hex
	Listen transport.Addrs              // where it listens, and so which transports it has
	Cause  func(err error) status.Cause // classifies why a peer is not linked
}

// Table decides about the dials of a node. One goroutine at a time may use it.
type Table struct {
	cfg     Config
	entries map[string]*peer // the peers of Set, by Peer.key
	proved  map[string]*peer // nodes that have proved themselves, by their id
	claims  claims
	waits   bool // a peer is to be dialled later

	unreachable []Unreachable // since the last call of Unreachable
}

// New returns an empty table.
func New(cfg Config) *Table {
	return &Table{cfg: cfg, entries: make(map[string]*peer), proved: make(map[string]*peer), claims: newClaims()}
}

// all returns the peers in random order.
func (t *Table) all() []*peer {
	return slices.AppendSeq(slices.Collect(maps.Values(t.entries)), maps.Values(t.proved))
}

// Set replaces the list of peers that may be dialled. The table still knows the nodes that have proved themselves.
func (t *Table) Set(list []Peer, v View) {
	entries := make(map[string]*peer, len(list))
	for _, p := range list {
		key := p.key()
		for entries[key] != nil {
			key += "'" // entries that differ only in their addresses
		}
		known := t.entries[key]
		if known == nil {
			known = &peer{}
		} else if known.Over != p.Over || !slices.EqualFunc(known.Addrs, p.Addrs, transport.Addrs.Equal) {
			known.again() // it moved
			known.hasMoved = known.hasMoved || leftBehind(v.Linked[p.Node], known.Peer, p)
		}
		known.Peer = p
		entries[key] = known
	}
	for key, p := range t.entries {
		if entries[key] == nil {
			p.again()
		}
	}
	t.entries = entries
}

// Announced records a sign that a node is back: an announcement of it. Announcements may be forged.
func (t *Table) Announced(now time.Duration, node string) {
	for _, peers := range []map[string]*peer{t.entries, t.proved} {
		for _, p := range peers {
			if p.node() == node {
				p.signAt = now
			}
		}
	}
}

// leftBehind reports whether a link leads to an address that was listed for its peer
// before and no longer is. Then the node dials without waiting for the link to fall silent.
func leftBehind(l *Link, before, now Peer) bool {
	return l != nil && before.lists(l.At) && !now.lists(l.At)
}

// Dial is one attempt to reach a peer: at addresses one after the other, or through the hub.
type Dial struct {
	Addrs  []transport.Addrs
	Host   string        // the host to reach through the hub; empty for a dial to Addrs
	Node   string        // id of the node to reach; empty if any will do
	Wait   time.Duration // wait before the first address
	Each   time.Duration // timeout for each address
	Silent *Link         // the silent link to the peer, which may recover meanwhile; nil without one
	Cancel func()        // ends the dial; the node sets it when it begins the dial

	peer *peer
}

// Unreachable is a peer that cannot be reached, for a line in the log.
type Unreachable struct {
	Host  string
	Addr  string // the first of its addresses; empty without one
	ByHub bool
	Err   error
}

// Unreachable returns the peers that cannot be reached since the last call.
func (t *Table) Unreachable() (list []Unreachable) {
	list, t.unreachable = t.unreachable, nil
	return list
}

// Next returns the dials to begin now. The node calls it when the view or the table has changed, and at every tick while
// Waits returns true.
func (t *Table) Next(now time.Duration, v View) (dials []*Dial) {
	t.forgetOld(now, v)
	var list []candidate
	t.waits = false
	proved := t.awaited(v)
	for _, p := range t.all() {
		silent, due := t.isDue(now, p, v)
		if due == notDue {
			continue
		}
		addrs, err := t.dialAddrs(p, v, proved)
		if due == sctpDue {
			addrs = onlySCTP(addrs)
		}
		switch {
		case len(addrs) > 0 && p.Source != "":
			list = append(list, candidate{p, silent, addrs})
		case len(addrs) > 0:
			dials = append(dials, t.dial(now, p, silent, addrs))
			p.dueAt = now + period(p.failures)
		case err != nil:
			t.unreached(now, p, err)
		}
	}
	return append(dials, t.dialClaims(now, list)...)
}

// Waits reports whether a peer waits to be dialled later.
func (t *Table) Waits() bool { return t.waits }

// isDue returns whether p has to be dialled now: it is wanted, has no link or a silent one, and its time has come.
func (t *Table) isDue(now time.Duration, p *peer, v View) (silent *Link, how due) {
	if p.Hub {
		return nil, notDue
	}
	old := v.linkTo(p)
	if p.hasMoved || old != nil && (old.isByHub() || !t.takes(p, old.End, v)) {
		old = nil // replace the link although it works
	}
	if v.isAnswering(p) || len(p.Addrs) == 0 || old != nil && !old.IsSilent || !t.wanted(p, v) {
		return nil, notDue
	}
	t.waits = true
	if p.dial != nil {
		if p.isSignDue(now, old) {
			p.stopDial() // the next packet of its handshake may be sent much later
		}
		return nil, notDue
	}
	if p.Source != "" && !t.claims.budget.has(now) || p.Source == "" && t.isDialled(p, transport.Addrs{}) {
		return nil, notDue
	}
	return old, p.isDue(now, old)
}

// dial begins to dial p at addrs.
func (t *Table) dial(now time.Duration, p *peer, silent *Link, addrs []transport.Addrs) *Dial {
	p.begunAt = now
	p.dial = &Dial{Addrs: addrs, Node: p.Node, Each: max(firstPeriod, period(p.failures)/time.Duration(len(addrs))), Silent: silent, peer: p}
	if p.proof == nil && t.proved[p.node()] != nil {
		p.dial.Wait = headStart
	}
	return p.dial
}

// Outcome classifies how a dial ended.
type Outcome int

const (
	Failed    Outcome = iota // nobody has answered
	Cancelled                // the table has ended the dial
	Accepted                 // the session may become the link to its peer
	Needless                 // there is a link already; the session ends
	WrongNode                // another node has answered, which has a link already; the session ends
	NoRoom                   // there is no room for another link; the session ends
	Recovered                // the silent link works again; the session ends
)

var errTooManyLinks = errors.New("too many links")

// Dialled handles the result of a dial: a session, or else an error. In the view, IsSilent of the link to the
// session's node must be that of this moment.
func (t *Table) Dialled(now time.Duration, d *Dial, s *End, err error, v View) Outcome {
	p := d.peer
	p.dial = nil
	if p.Hub {
		return t.dialledByHub(now, p, err)
	}
	t.settleClaim(now, d, s)
	outcome := t.outcome(d, s, err, v)
	switch outcome {
	case Cancelled:
		return outcome
	case Needless:
		t.vacate(*s)
		p.answered(*s)
		return outcome
	case Accepted, Recovered:
		p.answered(*s)
		if p.Node != "" && p.Node != s.Node { // another node has its address now
			p.failures++
			p.forgetLink(lost)
		}
		return outcome
	case WrongNode:
		t.vacate(*s)
		p.forgetLink(lost)
		err = AnswersThere(*s)
	case NoRoom:
		err = errTooManyLinks
	}
	p.failures++
	if d.Silent == nil || v.linkTo(p) == nil { // otherwise the silence is in the log
		t.unreached(now, p, err)
	}
	return outcome
}

// outcome decides about the session of a dial. Without a working link to the session's node it is accepted, even if it
// is not the node that was dialled: the host may have come back as that node.
func (t *Table) outcome(d *Dial, s *End, err error, v View) Outcome {
	if s == nil && errors.Is(err, context.Canceled) {
		return Cancelled
	}
	if s == nil {
		return Failed
	}
	switch l := v.Linked[s.Node]; {
	case l == nil && !t.HasRoom(*s, v):
		return NoRoom
	case l == nil, l.IsSilent, l.isByHub():
		return Accepted
	case l == d.Silent:
		return Recovered
	case d.Node != "" && d.Node != s.Node:
		return WrongNode
	case !d.peer.hasMoved && t.takes(d.peer, l.End, v) && t.stays(l):
		return Needless
	}
	return Accepted
}

// stays reports whether no dial of this node can replace a working link: the node with the lower
// id dialled it, or this node did.
func (t *Table) stays(l *Link) bool { return l.Dialled || l.Node < t.cfg.Node }

// AnswersThere returns the error of a dial that another node has answered.
func AnswersThere(s End) error { return fmt.Errorf("%s, node %s, answers there", s.Host, s.Node) }

// HasRoom reports whether there is room for another link, with s. Peers that the operator has listed always find room.
func (t *Table) HasRoom(s End, v View) bool {
	isListed := func(p *peer) bool { return p.Static && p.isListedAt(s) }
	return len(v.Linked) < MaxLinks || slices.ContainsFunc(t.all(), isListed)
}

// Linked records that a session has become the link to its node, and ends the dials to that node.
func (t *Table) Linked(now time.Duration, l *Link, v View) {
	if l.isByHub() {
		return // dials to addresses go on: a direct link is better
	}
	t.prove(now, l, v)
	for _, p := range t.all() {
		if p.Node == "" && p.lists(l.At) {
			p.reached, p.met = l.Node, l.Host
		}
		isHere := p.isAt(l.End)
		p.hasMoved = p.hasMoved && !isHere
		if isHere && t.stays(l) || p.Hub && p.Host == l.Host {
			p.stopDial()
		}
	}
}

// Recovered ends the dials that were begun because a link was silent.
func (t *Table) Recovered(l *Link) {
	for _, p := range t.all() {
		if p.node() == l.Node {
			p.again()
		}
	}
}

// Settled is how long a link must have lasted for its peer to be dialled at once when it ends.
const Settled = 3 * time.Second

// LinkEnd describes how a link has ended.
type LinkEnd struct {
	Greeted     bool // the link had received the peer's Hello
	SaidGoodbye bool
	TimedOut    bool // nothing was received for the idle timeout
	Cause       error
}

// Unlinked records that a link has ended. If the link had lasted, its end is a sign that the peer is back: a restarted
// peer has rejected a packet of the link. It is no sign if the link timed out: then the dials that began when the link
// fell silent go on. A peer whose links end at once is dialled after a longer time. A node that said goodbye
// begins handshakes that it does not complete while it closes its last links, so it is not dialled at once either.
func (t *Table) Unlinked(now time.Duration, l *Link, end LinkEnd) {
	t.FellSilent(now, l)
	if l.isByHub() {
		t.unlinkedByHub(now, l, end)
	}
	lasted := end.Greeted && now >= l.UpAt+Settled
	for _, p := range t.all() {
		switch {
		case p.node() != l.Node:
			continue
		case l.isByHub():
		case !lasted:
			p.failures++
			p.dueAt = now + period(p.failures-1)
			p.lastLink, p.endedAt = unsettled, now
			p.err = end.Cause
		case p.proof != nil || p.Static || p.lists(l.At):
			p.lastLink, p.endedAt, p.signAt = lost, now, 0
			if !end.TimedOut {
				p.failures, p.dueAt = 0, p.begunAt+firstPeriod
			}
		}
		if end.SaidGoodbye {
			p.lastLink, p.dueAt = left, max(p.dueAt, now+firstBackoff)
		}
	}
}

// unreached records why p cannot be linked, for the log when that begins. It limits the lines
// about announced peers, since any host can announce any number of them.
func (t *Table) unreached(now time.Duration, p *peer, err error) {
	isFirst := p.err == nil
	p.err = err
	if !isFirst || errors.Is(err, trust.ErrWrongKey) || p.proof == nil && t.proved[p.node()] != nil || !t.claims.mayLog(now, p) {
		return
	}
	u := Unreachable{Host: cmp.Or(t.nameOf(p), p.key()), ByHub: p.Hub, Err: err}
	if len(p.Addrs) > 0 { // it may have lost its addresses while it was dialled
		u.Addr = p.Addrs[0].String()
	}
	t.unreachable = append(t.unreachable, u)
}
