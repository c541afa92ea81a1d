package bridge

import (
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
	"achbridge/bridge/trust"
	"achbridge/wire"
)

// ledgerRate is how many accounts a link tells its peer in a second at most; one
// that has come to rest is told once more at once.
const ledgerRate = 50

// tellLedger tells l's peer what has changed in the accounts of both directions.
func (n *Node) tellLedger(l *link) {
	now := n.now()
	every := max(time.Second, time.Duration(len(l.order)+len(l.subs))*time.Second/ledgerRate)
	m := wire.Ledger{Path: l.pathNews(now)}
	l.mu.Lock()
	carried := l.flight.Carried()
	for _, e := range l.order {
		a := e.accounts(!carried[e.id])
		if e.teller.Due(now, every, a, func(a ledger.Accounts) uint64 { return a.Offered }) {
			m.Serving = append(m.Serving, e.tellOf(a.ToWire(e.id)))
		}
	}
	l.mu.Unlock()
	for id, mirror := range l.subs {
		if a := mirror.Since(); mirror.teller.Due(now, every, a, ledger.Accounts.Settled) {
			m.Holding = append(m.Holding, mirror.AddTo(a.ToWire(id), now))
		}
	}
	for m.Path != nil || len(m.Serving)+len(m.Holding) > 0 {
		s, h := min(len(m.Serving), wire.MaxChannels/2), min(len(m.Holding), wire.MaxChannels/2)
		l.send(wire.Ledger{Serving: m.Serving[:s], Holding: m.Holding[:h], Path: m.Path})
		m = wire.Ledger{Serving: m.Serving[s:], Holding: m.Holding[h:]}
	}
}

// ledger takes what the peer tells.
func (n *Node) ledger(l *link, m wire.Ledger) {
	if m.Path != nil {
		l.theirs = m.Path
	}
	for _, a := range m.Serving {
		if mirror := l.subs[a.ID]; mirror != nil {
			mirror.Hear(ledger.FromWire(a), status.Cause(a.Cause))
		}
	}
	if answer := l.settle(m.Holding); len(answer) > 0 {
		l.send(wire.Ledger{Serving: answer})
	}
}

// settle takes what the peer counts, and answers where the traffic rests: both
// sides then have the same account.
func (l *link) settle(holding []wire.Account) (answer []wire.Account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	carried := l.flight.Carried()
	for _, a := range holding {
		e := l.exports[a.ID]
		if e == nil {
			continue
		}
		e.book.Hear(ledger.FromWire(a))
		e.reader = sightOf(a)
		now := e.accounts(!carried[e.id])
		if rests := now.Offered == e.teller.Before.Offered; rests && now != e.teller.Said {
			e.teller.Said = now
			answer = append(answer, e.tellOf(now.ToWire(e.id)))
		}
	}
	return answer
}

// bookKey names an account: a peer, and a channel that it reads.
type bookKey struct {
	peer    trust.NodeID
	channel string
}

// maxBooks bounds the accounts that are kept of what peers have read.
const maxBooks = 10000

// book returns the account of a channel towards a peer.
func (n *Node) book(peer trust.NodeID, channel string) *ledger.Book {
	key := bookKey{peer, channel}
	b := n.books[key]
	if b == nil {
		b = &ledger.Book{}
		if len(n.books) < maxBooks {
			n.books[key] = b
		}
	}
	return b
}
