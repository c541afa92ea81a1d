package bridge

import (
	"cmp"
	"errors"
	"math"
	"os"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/wire"
)

// ledgerRate is how many accounts a link sends to its peer in a second at most. When an
// account stops changing, it is sent once more at once.
const ledgerRate = 50

// tellLedger sends the accounts that have changed, of both directions, to l's peer.
func (l *link) tellLedger(now time.Duration, waited *float64) {
	every := max(time.Second, time.Duration(len(l.exports.order)+len(l.inbound))*time.Second/ledgerRate)
	m := wire.Ledger{Path: l.pathNews(now, waited)}
	for _, x := range l.exports.order {
		a, newest := x.Accounts()
		if x.teller.Due(now, every, a, func(a ledger.Accounts) uint64 { return a.Offered }) {
			m.Serving = append(m.Serving, x.tellOf(a, newest))
		}
	}
	for id, in := range l.inbound {
		mirror, newest := in.m, in.consumer.Newest() // first: what is counted then is of these frames at least
		if a := mirror.Since(); mirror.teller.Due(now, every, a, ledger.Accounts.Settled) {
			told := mirror.AddTo(a.ToWire(id), now)
			told.Newest = newest
			m.Holding = append(m.Holding, told)
		}
	}
	for m.Path != nil || len(m.Serving)+len(m.Holding) > 0 {
		s, h := min(len(m.Serving), wire.MaxChannels/2), min(len(m.Holding), wire.MaxChannels/2)
		l.send(wire.Ledger{Serving: m.Serving[:s], Holding: m.Holding[:h], Path: m.Path})
		m = wire.Ledger{Serving: m.Serving[s:], Holding: m.Holding[h:]}
	}
}

// ledger handles the accounts that the peer sends.
func (l *link) ledger(m wire.Ledger) {
	if m.Path != nil {
		l.path.inbound = m.Path
	}
	for _, a := range m.Serving {
		if in := l.inbound[a.ID]; in != nil {
			in.m.Hear(a)
		}
	}
	if answer := l.settle(m.Holding); len(answer) > 0 {
		l.send(wire.Ledger{Serving: answer})
	}
}

// settle adds the peer's counts to the accounts. It returns answers for accounts without
// traffic, so that both sides then have the same figures.
func (l *link) settle(holding []wire.Account) (answer []wire.Account) {
	for _, a := range holding {
		x := l.exports.byID[a.ID]
		if x == nil {
			continue
		}
		x.Hear(a)
		x.reader = sightOf(a)
		now, newest := x.Accounts()
		if rests := now.Offered == x.teller.Before.Offered; rests && now != x.teller.Said {
			x.teller.Said = now
			answer = append(answer, x.tellOf(now, newest))
		}
	}
	return answer
}

// Each end of a link measures what the other end cannot. The sender knows how long frames
// waited for the path; the receiver knows what delays its mirrors; each knows whether it gets the processor. They send these facts to
// each other, so that `why` gives the same verdict on both hosts.

// pathEvery is how often facts of the path are sent while they change. It is short, since
// `why` may watch for only this long.
const pathEvery = 500 * time.Millisecond

// pathTeller has the facts of the path that a link's peer was last sent.
type pathTeller struct {
	said wire.Path // without its time
	at   time.Duration
}

// pathNews returns the facts to send now, nil for none. Over a path on which we send no frames, they are about this host alone.
func (l *link) pathNews(now time.Duration, waited *float64) *wire.Path {
	if now < l.path.sent.at+pathEvery {
		return nil
	}
	p := l.path.sent.said
	if len(l.exports.order) > 0 {
		full, rate := l.frames.Path(now)
		sent := l.frames.Sent()
		p.Full, p.Rate, p.Sent, p.Lost = uint64(full), uint64(rate), sent.Packets, sent.Lost
	}
	p.Waited = waitedToWire(waited)
	if p == l.path.sent.said {
		return nil
	}
	l.path.sent = pathTeller{p, now}
	p.At = uint64(now)
	return &p
}

func inboundPath(p *wire.Path) *status.InboundPath {
	if p == nil {
		return nil
	}
	in := &status.InboundPath{AtS: time.Duration(p.At).Seconds(), FullS: time.Duration(p.Full).Seconds(), Sent: p.Sent, Lost: p.Lost, ProcessorWait: waitedFromWire(p.Waited)}
	if p.Rate > 0 {
		mbit := float64(p.Rate) * 8 / 1e6
		in.PathMbit = &mbit
	}
	return in
}

// readerSight has the facts that a peer has sent about its mirror of a channel.
type readerSight struct {
	waited, transit time.Duration
	cause           status.Cause
}

// tellOf returns the account to send to the peer: counted, which covers the frames up to newest,
// and the cause if the channel cannot be read here.
func (x *export) tellOf(counted ledger.Accounts, newest uint64) wire.Account {
	a := counted.ToWire(x.id)
	a.Newest = newest
	if x.unreadable() {
		a.Cause = string(cmp.Or(causeOf(x.Trouble()), status.CauseOther))
	}
	return a
}

// unreadable reports whether the channel cannot be read for a reason that lasts, not only
// because its lock is held for a moment.
func (x *export) unreadable() bool {
	trouble := x.Trouble()
	return trouble != nil && !errors.Is(trouble, os.ErrDeadlineExceeded)
}

func sightOf(a wire.Account) readerSight {
	return readerSight{time.Duration(a.Waited), time.Duration(a.Transit), status.Cause(a.Cause)}
}

// show adds the facts to a status.
func (r readerSight) show(s *status.Subscription) {
	s.ReaderWaitS, s.ReaderCause = r.waited.Seconds(), r.cause
	if r.transit != 0 {
		v := status.Ms(r.transit)
		s.TransitMs = &v
	}
}

// The list of revocations spreads from node to node: a node sends its list to each peer until
// that has it, and takes a newer list from any peer. So an operator gives a list to one node.

// tellRevocations sends the list of this node, unless the peer has it or a newer one.
func (l *link) tellRevocations(own *transport.Endpoint) {
	list := own.Revocations()
	if !l.hello.isReceived || list.Number() <= l.hello.listNumber {
		return
	}
	l.hello.listNumber = list.Number()
	l.send(wire.Revocations{List: list.Bytes()})
}

// revocations handles the peer's list. A list without a valid signature ends the link.
func (l *link) revocations(own *transport.Endpoint, m wire.Revocations) error {
	taken, err := own.Revoke(m.List)
	if err != nil {
		return unwelcome(err.Error())
	}
	if taken {
		l.hello.listNumber = own.Revocations().Number()
	}
	return nil
}

// waitSteps is how finely a share of the time is told in which a daemon waited for a processor. In small steps it would always
// be news, also over an idle link.
const waitSteps = 20

// lookAtProcessor learns how long this process waited for a processor lately.
func (n *Node) lookAtProcessor() {
	if n.cfg.ProcessorWait == nil {
		return
	}
	n.waited = nil
	if share, known := n.cfg.ProcessorWait(n.now()); known {
		share = math.Round(share*waitSteps) / waitSteps
		n.waited = &share
	}
}

// waitedToWire turns a share into %; 0 when it is not known.
func waitedToWire(share *float64) uint8 {
	if share == nil {
		return 0
	}
	return uint8(math.Round(100 * *share))
}

func waitedFromWire(percent uint8) *float64 {
	if percent == 0 {
		return nil
	}
	share := float64(percent) / 100
	return &share
}
