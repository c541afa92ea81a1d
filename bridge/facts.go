package bridge

import (
	"cmp"
	"errors"
	"os"
	"time"

	"achbridge/bridge/status"
	"achbridge/wire"
)

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
