package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
)

// Config is what does not change about the node of a table.
type Config struct {
	Node   string                       // its id in hex
	Listen transport.Addrs              // where it listens, and so which transports it has
	Cause  func(err error) status.Cause // classifies why a peer is not linked
}

// Table knows the peers of a node. It is for one goroutine.
type Table struct {
	cfg    Config
	told   map[string]*peer // listed, announced, and at the hub; by Peer.key
	proved map[string]*peer // nodes that have proved themselves, by their id
	claims claims

	unreachable []Unreachable // since the last call of Unreachable
}

// New returns an empty table.
func New(cfg Config) *Table {
	return &Table{cfg: cfg, told: make(map[string]*peer), proved: make(map[string]*peer), claims: newClaims()}
}

// all returns the peers in random order.
func (t *Table) all() iter.Seq[*peer] {
	return func(yield func(*peer) bool) {
		for _, list := range []map[string]*peer{t.told, t.proved} {
			for _, p := range list {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// Set replaces the list of nodes that may be dialled. What nodes have proved stays.
func (t *Table) Set(list []Peer, v View) {
	told := make(map[string]*peer, len(list))
	for _, p := range list {
		key := p.key()
		for told[key] != nil {
			key += "'" // entries that differ only in their addresses
		}
		known := t.told[key]
		if known == nil {
			known = &peer{}
		} else if known.Over != p.Over || !slices.EqualFunc(known.Addrs, p.Addrs, transport.Addrs.Equal) {
			known.again() // it moved
			known.hasMoved = known.hasMoved || leftBehind(v.Linked[p.Node], known.Peer, p)
		}
		known.Peer = p
		told[key] = known
	}
	for key, p := range t.told {
		if told[key] == nil {
			p.again()
		}
	}
	t.told = told
}

// leftBehind reports whether a link leads to an address that was listed for its peer
// before and no longer is. Then the node dials without waiting for the link to fall silent.
func leftBehind(l *Link, before, now Peer) bool {
	return l != nil && before.lists(l.At) && !now.lists(l.At)
}

// Dial is one attempt to reach a peer: at addresses one after the other, or through the hub.
type Dial struct {
	Addrs  []transport.Addrs // of these, each for at most DialTimeout
	Host   string            // to reach through the hub; empty for a dial to Addrs
	Node   string            // id of the node to reach; empty for any
	Wait   time.Duration     // before the first address
	Silent *Link             // the silent link to the peer, which may be heard again meanwhile; nil without one
	Cancel func()            // ends the dial; the node sets it when it begins the dial

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

// Next returns the dials to begin now. It is to be called when the view or the table has changed, and while Waits, at every tick.
func (t *Table) Next(now time.Duration, v View) (dials []*Dial) {
	t.forgetOld(now, v)
	var list []candidate
	t.claims.wait = false
	proved := t.awaited(v)
	for p := range t.all() {
		silent, isDue := t.isDue(now, p, v)
		if !isDue {
			continue
		}
		addrs, err := t.dialAddrs(p, v, proved)
		switch {
		case len(addrs) > 0 && p.Source != "":
			list = append(list, candidate{p, silent, addrs})
		case len(addrs) > 0:
			dials = append(dials, t.dial(p, silent, addrs, p.backoff(now, p.failures, silent)))
		case err != nil:
			t.unreached(now, p, err)
		}
	}
	return append(dials, t.dialClaims(now, list)...)
}

// Waits reports whether a peer waits for the budget of claims.
func (t *Table) Waits() bool { return t.claims.wait }

// isDue reports whether p has to be dialled: it is wanted, and has no link or a silent one.
func (t *Table) isDue(now time.Duration, p *peer, v View) (silent *Link, isDue bool) {
	if p.Hub || t.claims.defers(now, p) {
		return nil, false
	}
	old := v.linkTo(p)
	if p.hasMoved || old != nil && (old.isByHub() || !t.takes(p, old.End, v)) {
		old = nil // replace the link although it is heard
	}
	if p.dial != nil || v.isAnswering(p) || len(p.Addrs) == 0 || old != nil && !old.IsSilent {
		return nil, false
	}
	return old, t.wanted(p, v) && (p.Source != "" || !t.isDialled(p))
}

// dial begins to dial p at addrs after wait.
func (t *Table) dial(p *peer, silent *Link, addrs []transport.Addrs, wait time.Duration) *Dial {
	if p.proof == nil && t.proved[p.node()] != nil {
		wait += headStart
	}
	p.dial = &Dial{Addrs: addrs, Node: p.Node, Wait: wait, Silent: silent, peer: p}
	return p.dial
}

// Outcome is what becomes of a dial.
type Outcome int

const (
	Failed    Outcome = iota // nobody has answered
	Cancelled                // the table has ended the dial
	Accepted                 // the session may become the link to its peer
	Needless                 // there is a link already; the session ends
	Stranger                 // another node has answered, which has a link already; the session ends
	Crowded                  // there is no room for another link; the session ends
	Recovered                // the silent link was heard again; the session ends
)

var errTooManyLinks = errors.New("too many links")

// Dialled handles the result of a dial: a session, or else an error. In the view, the link to the session's node is to tell
// whether it is silent at this moment.
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
			p.forgetLoss()
		}
		return outcome
	case Stranger:
		t.vacate(*s)
		p.forgetLoss()
		err = AnswersThere(*s)
	case Crowded:
		err = errTooManyLinks
	}
	p.failures++
	if l := v.linkTo(p); l == nil || !l.IsSilent { // otherwise it is in the log
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
	case l == nil && t.IsCrowded(*s, v):
		return Crowded
	case l == nil, l.IsSilent, l.isByHub():
		return Accepted
	case l == d.Silent:
		return Recovered
	case d.Node != "" && d.Node != s.Node:
		return Stranger
	case !d.peer.hasMoved && t.takes(d.peer, l.End, v) && t.stays(l):
		return Needless
	}
	return Accepted
}

// stays reports whether no dial of this node can replace a working link: the node with the lower
// id dialled it, or this node did.
func (t *Table) stays(l *Link) bool { return l.Dialled || l.Node < t.cfg.Node }

// AnswersThere is why an address leads to no link: another node than the one that was dialled has answered.
func AnswersThere(s End) error { return fmt.Errorf("%s, node %s, answers there", s.Host, s.Node) }

// IsCrowded reports that there is no room for another link, with s. Peers that the operator has listed always find room.
func (t *Table) IsCrowded(s End, v View) bool {
	if len(v.Linked) < MaxLinks {
		return false
	}
	for _, p := range t.told {
		if p.Static && p.isListedAt(s) {
			return false
		}
	}
	return true
}

// Linked records that a session has become the link to its node, and ends the dials to that node.
func (t *Table) Linked(now time.Duration, l *Link, v View) {
	if l.isByHub() {
		return // dials to addresses go on: a direct link is better
	}
	t.prove(now, l, v)
	t.stopHubDials(l)
	for p := range t.all() {
		if p.Node == "" && p.lists(l.At) {
			p.reached, p.met = l.Node, l.Host
		}
		if !p.isAt(l.End) {
			continue
		}
		p.hasMoved = false
		if t.stays(l) {
			p.stopDial()
		}
	}
}

// FellSilent records that nothing is heard on a link any more.
func (t *Table) FellSilent(now time.Duration, l *Link) { t.failTrial(now, l) }

// HeardAgain ends the dials that were begun because a link was silent.
func (t *Table) HeardAgain(l *Link) {
	for p := range t.all() {
		if p.node() == l.Node {
			p.again()
		}
	}
}

// Settled is how long a link must have lasted for its peer to be dialled at once when it ends.
const Settled = 3 * time.Second

// LinkEnd is how a link has ended.
type LinkEnd struct {
	Greeted     bool // the peer had said Hello
	SaidGoodbye bool
	Cause       error
}

// Unlinked records that a link has ended. Its peer is dialled again, at once if the link had lasted, otherwise after a
// longer back-off. So a peer whose links end at once is not dialled at the pace of round trips. A node that said goodbye
// begins handshakes that it does not complete while it closes its last links, so it is not dialled at once either.
func (t *Table) Unlinked(now time.Duration, l *Link, end LinkEnd) {
	t.failTrial(now, l)
	if l.isByHub() {
		t.unlinkedByHub(now, l, end)
	}
	lasted := end.Greeted && now >= l.UpAt+Settled
	for p := range t.all() {
		switch {
		case p.node() != l.Node:
			continue
		case l.isByHub():
		case !lasted:
			p.failures++
			p.ending, p.endedAt = unknown, now
			p.err = end.Cause
		case p.proof != nil || p.Static || p.lists(l.At):
			p.failures, p.ending, p.endedAt = 0, lost, now
		}
		if end.SaidGoodbye {
			p.failures, p.ending = max(p.failures, 1), left
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
