package bridge

import (
	"time"

	"achbridge/bridge/transport"
	"achbridge/wire"
)

// ledgerRate is how many accounts a link tells its peer in a second at most; one
// that has come to rest is told once more at once.
const ledgerRate = 50

// teller decides when an account is told again.
type teller struct {
	said, before Accounts
	at           time.Duration
}

// due reports whether to tell a now; moving is what grows as long as there is
// traffic.
func (t *teller) due(now, every time.Duration, a Accounts, moving func(Accounts) uint64) bool {
	rests := moving(a) == moving(t.before)
	t.before = a
	if a == t.said || !rests && now < t.at+every {
		return false
	}
	t.said, t.at = a, now
	return true
}

// tellLedger tells l's peer what has changed in the accounts of both directions.
func (n *Node) tellLedger(l *link) {
	now := n.now()
	every := max(time.Second, time.Duration(len(l.order)+len(l.subs))*time.Second/ledgerRate)
	var m wire.Ledger
	l.mu.Lock()
	carried := l.flight.Carried()
	for _, e := range l.order {
		a := e.accounts(!carried[e.id])
		if e.teller.due(now, every, a, func(a Accounts) uint64 { return a.Offered }) {
			m.Serving = append(m.Serving, a.account(e.id))
		}
	}
	l.mu.Unlock()
	for id, mirror := range l.subs {
		if a := mirror.since(); mirror.teller.due(now, every, a, Accounts.settled) {
			m.Holding = append(m.Holding, a.account(id))
		}
	}
	for len(m.Serving)+len(m.Holding) > 0 {
		s, h := min(len(m.Serving), wire.MaxChannels/2), min(len(m.Holding), wire.MaxChannels/2)
		l.send(wire.Ledger{Serving: m.Serving[:s], Holding: m.Holding[:h]})
		m.Serving, m.Holding = m.Serving[s:], m.Holding[h:]
	}
}

// ledger takes what the peer tells.
func (n *Node) ledger(l *link, m wire.Ledger) {
	for _, a := range m.Serving {
		if mirror := l.subs[a.ID]; mirror != nil {
			mirror.hear(accountsOf(a))
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
		e.book.hear(accountsOf(a))
		now := e.accounts(!carried[e.id])
		if rests := now.Offered == e.teller.before.Offered; rests && now != e.teller.said {
			e.teller.said = now
			answer = append(answer, now.account(e.id))
		}
	}
	return answer
}

// bookKey names an account: a peer, and a channel that it reads.
type bookKey struct {
	peer    transport.NodeID
	channel string
}

// maxBooks bounds the accounts that are kept of what peers have read.
const maxBooks = 10000

// book returns the account of a channel towards a peer.
func (n *Node) book(peer transport.NodeID, channel string) *book {
	key := bookKey{peer, channel}
	b := n.books[key]
	if b == nil {
		b = &book{}
		if len(n.books) < maxBooks {
			n.books[key] = b
		}
	}
	return b
}
