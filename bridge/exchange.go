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

// countersRate is the largest number of frame counters that a link sends to its peer per second.
// When counters stop changing, their final values are sent at once.
const countersRate = 50

// sendCounters sends l's peer the frame counters that have changed, of both directions.
func (l *link) sendCounters(now time.Duration, waited *float64) {
	every := max(time.Second, time.Duration(len(l.exports.order)+len(l.inbound))*time.Second/countersRate)
	m := wire.Counters{Path: l.pathNews(now, waited)}
	for _, x := range l.exports.order {
		a, newest := x.FrameCounters()
		if x.reporter.Due(now, every, a, func(a ledger.FrameCounters) uint64 { return a.Offered }) {
			m.Serving = append(m.Serving, x.countersOf(a, newest))
		}
	}
	for id, in := range l.inbound {
		mirror, newest := in.m, in.consumer.Newest() // read newest first: the counters then include at least these frames
		if a := mirror.Since(); mirror.reporter.Due(now, every, a, ledger.FrameCounters.Settled) {
			reported := mirror.AddTo(a.ToWire(id), now)
			reported.Newest = newest
			m.Holding = append(m.Holding, reported)
		}
	}
	for m.Path != nil || len(m.Serving)+len(m.Holding) > 0 {
		s, h := min(len(m.Serving), wire.MaxChannels/2), min(len(m.Holding), wire.MaxChannels/2)
		l.send(wire.Counters{Serving: m.Serving[:s], Holding: m.Holding[:h], Path: m.Path})
		m = wire.Counters{Serving: m.Serving[s:], Holding: m.Holding[h:]}
	}
}

// receiveCounters handles the frame counters that the peer sends.
func (l *link) receiveCounters(m wire.Counters) {
	if m.Path != nil {
		l.path.inbound = m.Path
	}
	for _, a := range m.Serving {
		if in := l.inbound[a.ID]; in != nil {
			in.m.TakeReport(a)
		}
	}
	if answer := l.settle(m.Holding); len(answer) > 0 {
		l.send(wire.Counters{Serving: answer})
	}
}

// settle adds the peer's counts to the counters of our exports. For exports without new frames it
// returns counters to send back, so that both ends have the same figures.
func (l *link) settle(holding []wire.FrameCounters) (answer []wire.FrameCounters) {
	for _, a := range holding {
		x := l.exports.byID[a.ID]
		if x == nil {
			continue
		}
		x.TakeReport(a)
		x.reader = sightOf(a)
		now, newest := x.FrameCounters()
		if rests := now.Offered == x.reporter.Before.Offered; rests && now != x.reporter.Said {
			x.reporter.Said = now
			answer = append(answer, x.countersOf(now, newest))
		}
	}
	return answer
}

// Each end of a link measures facts that the other end cannot. The sender knows how long frames
// waited for the path; the receiver knows what delays its mirrors. Each end knows whether it gets
// the CPU. The ends exchange these facts, so that `why` reports the same diagnosis on both hosts.

// pathEvery is the interval at which changing path facts are sent. It is short because `why` may
// watch for only this long.
const pathEvery = 500 * time.Millisecond

// sentPath has the path facts that a link's peer was last sent.
type sentPath struct {
	facts wire.Path // the facts; At is zero
	at    time.Duration
}

// pathNews returns the facts to send now, nil if there are none. Over a path on which we send no
// frames, the facts concern only this host.
func (l *link) pathNews(now time.Duration, waited *float64) *wire.Path {
	if now < l.path.sent.at+pathEvery {
		return nil
	}
	p := l.path.sent.facts
	if len(l.exports.order) > 0 {
		full, rate := l.frames.Path(now)
		sent := l.frames.Sent()
		p.Full, p.Rate, p.Sent, p.Lost = uint64(full), uint64(rate), sent.Packets, sent.Lost
	}
	p.Waited = waitedToWire(waited)
	if p == l.path.sent.facts {
		return nil
	}
	l.path.sent = sentPath{p, now}
	p.At = uint64(now)
	return &p
}

func inboundPath(p *wire.Path) *status.InboundPath {
	if p == nil {
		return nil
	}
	in := &status.InboundPath{AtS: time.Duration(p.At).Seconds(), FullS: time.Duration(p.Full).Seconds(), Sent: p.Sent, Lost: p.Lost, CPUWait: waitedFromWire(p.Waited)}
	if p.Rate > 0 {
		mbit := float64(p.Rate) * 8 / 1e6
		in.PathMbit = &mbit
	}
	return in
}

// readerSight has the facts that a peer has sent about its mirror of a channel.
type readerSight struct {
	cpuWait, oneWayDelay time.Duration
	cause                status.Cause
}

// countersOf returns the counters to send to the peer: counted, which covers the frames up to newest.
// It adds the cause if this host cannot read the channel.
func (x *export) countersOf(counted ledger.FrameCounters, newest uint64) wire.FrameCounters {
	a := counted.ToWire(x.id)
	a.Newest = newest
	if x.unreadable() {
		a.Cause = string(cmp.Or(causeOf(x.Problem()), status.CauseOther))
	}
	return a
}

// unreadable reports whether the channel cannot be read for a lasting reason. A lock that is held
// for a moment is not one.
func (x *export) unreadable() bool {
	problem := x.Problem()
	return problem != nil && !errors.Is(problem, os.ErrDeadlineExceeded)
}

func sightOf(a wire.FrameCounters) readerSight {
	return readerSight{time.Duration(a.Waited), time.Duration(a.OneWayDelay), status.Cause(a.Cause)}
}

// show adds the facts to a subscription's status.
func (r readerSight) show(s *status.Subscription) {
	s.ReaderWaitS, s.ReaderCause = r.cpuWait.Seconds(), r.cause
	if r.oneWayDelay != 0 {
		v := status.Ms(r.oneWayDelay)
		s.OneWayDelayMs = &v
	}
}

// The revocation list spreads from node to node. A node sends its list to each peer until the peer
// has it, and accepts a newer list from any peer. So an operator gives a list to only one node.

// sendRevocations sends the list of this node, unless the peer has this list or a newer one.
func (l *link) sendRevocations(own *transport.Endpoint) {
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

// waitSteps is the number of steps into which the share of time spent waiting for a CPU is
// rounded. With smaller steps the share would change, and be sent, all the time, even over an idle
// link.
const waitSteps = 20

// sampleCPUWait updates the share of time for which this process recently waited for a CPU.
func (n *Node) sampleCPUWait() {
	if n.cfg.CPUWait == nil {
		return
	}
	n.cpuWait = nil
	if share, known := n.cfg.CPUWait(n.now()); known {
		share = math.Round(share*waitSteps) / waitSteps
		n.cpuWait = &share
	}
}

// waitedToWire converts a share to percent. It returns 0 if the share is unknown.
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
