package bridge

import (
	"cmp"
	"errors"
	"os"
	"time"

	"achbridge/bridge/fresh"
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

// Each end of a link measures what the other cannot: who sends knows for how long frames
// waited for the path, and who receives what holds up its mirrors. They tell each other,
// so that both can say the same of a channel, by the same function from the same facts.

// pathEvery is how often the path is told while there is news: why may watch for as
// little as that.
const pathEvery = 500 * time.Millisecond

// pathTeller is what a link's peer was told of the path.
type pathTeller struct {
	said wire.Path // without its time
	at   time.Duration
}

// pathNews is what is to be told of the path now, nil: nothing. A path over which we send
// nothing is not told.
func (l *link) pathNews(now time.Duration) *wire.Path {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.order) == 0 || now < l.pathTold.at+pathEvery {
		return nil
	}
	p := wire.Path{Full: uint64(l.traffic.full.Total(now)), Rate: uint64(max(0, l.pacer.Path()))}
	p.Sent, p.Lost = l.flight.Count()
	if p == l.pathTold.said {
		return nil
	}
	l.pathTold = pathTeller{p, now}
	p.At = uint64(now)
	return &p
}

func inboundPath(p *wire.Path) *status.InboundPath {
	if p == nil {
		return nil
	}
	in := &status.InboundPath{AtS: time.Duration(p.At).Seconds(), FullS: time.Duration(p.Full).Seconds(), Sent: p.Sent, Lost: p.Lost}
	if p.Rate > 0 {
		mbit := float64(p.Rate) * 8 / 1e6
		in.PathMbit = &mbit
	}
	return in
}

// readerSight is what a peer has told of its mirror of a channel.
type readerSight struct {
	waited, transit time.Duration
	cause           status.Cause
}

// tellOf adds to an account why its channel cannot be read here.
func (e *export) tellOf(a wire.Account) wire.Account {
	if e.unreadable() {
		a.Cause = string(cmp.Or(causeOf(e.trouble), status.CauseOther))
	}
	return a
}

// unreadable reports trouble that is more than a lock which was taken for a moment.
func (e *export) unreadable() bool {
	return e.trouble != nil && !errors.Is(e.trouble, os.ErrDeadlineExceeded)
}

func sightOf(a wire.Account) readerSight {
	return readerSight{time.Duration(a.Waited), time.Duration(a.Transit), status.Cause(a.Cause)}
}

// show adds it to a status.
func (r readerSight) show(s *status.Subscription) {
	s.ReaderWaitS, s.ReaderCause = r.waited.Seconds(), r.cause
	if r.transit != 0 {
		v := status.Ms(r.transit)
		s.TransitMs = &v
	}
}

// traffic is under the link's mu.
type traffic struct {
	sent, received uint64 // bytes
	full           fresh.Stopwatch
}

func (t *traffic) out(size int) { t.sent += uint64(size) }
func (t *traffic) in(size int)  { t.received += uint64(size) }

// wait notes whether frames wait for the path from now on.
func (t *traffic) wait(now time.Duration, full bool) {
	if full {
		t.full.Start(now)
	} else {
		t.full.Stop(now)
	}
}

func (t *traffic) status(now time.Duration, f *fresh.Flight, r *fresh.Receipts) status.Traffic {
	s := status.Traffic{SentBytes: t.sent, ReceivedBytes: t.received, FullS: t.full.Total(now).Seconds()}
	s.Sent, s.Lost = f.Count()
	s.Received, s.Missed = r.Count()
	return s
}
