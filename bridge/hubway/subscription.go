package hubway

import (
	"slices"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// Subscription is one peer's subscription to a channel published to the hub. It counts the frames that the peer missed.
// The hub keeps one frame of a channel, so a frame that did not arrive before a later one was replaced at the hub.
//
// Its methods belong to the node's goroutine.
type Subscription struct {
	publisher       *publisher
	id              uint32
	peer            Peer
	counters        *ledger.SenderCounters
	countersAtBegin ledger.SenderCounters // copy of counters at the beginning of the subscription
	arrived         uint64                // newest frame that the peer has counted
	replaced        uint64                // frames replaced at the hub by newer ones, by the peer's last report
	problem         error

	// Guarded by publisher.mu.
	qos        rule.QoS
	countAfter uint64 // frames up to this number are not counted
	counts     counts
	sentBefore int64 // publisher.puts.total at the beginning of the subscription
	bound      bound
}

// outcome is the result of a loaded frame.
type outcome int

const (
	sent outcome = iota
	expired
	refused
	outcomes
)

// counts holds the frames of a subscription by outcome, and those skipped for a newer frame or for the rate limit.
type counts struct {
	by                  [outcomes]uint64
	superseded, limited uint64
}

// add counts the frames after base, up to and including seq. Those up to passed were written before their slot began.
func (c *counts) add(base, seq, passed uint64, o outcome) {
	if seq <= base {
		return
	}
	skipped := seq - base - 1
	limited := min(max(passed, base)-base, skipped)
	c.limited += limited
	c.superseded += skipped - limited
	c.by[o]++
}

// putLog records, for the latest frames, the total number of puts at that time.
type putLog struct {
	total int64 // frames put
	seq   [putLogged]uint64
	sent  [putLogged]int64 // total after the put of the same index in seq
	next  int
}

// putLogged is more than the number of puts between two reports of a reader, at about 500 a second.
const putLogged = 1024

func (g *putLog) add(seq uint64) {
	g.seq[g.next%putLogged], g.sent[g.next%putLogged] = seq, g.total
	g.next++
}

// upTo returns how many frames had been put, up to and including frame seq. ok is false if the log does not have frame
// seq.
func (g *putLog) upTo(seq uint64) (sent int64, ok bool) {
	for back := 1; back <= min(g.next, putLogged); back++ {
		if i := (g.next - back) % putLogged; g.seq[i] <= seq {
			return g.sent[i], g.seq[i] == seq
		}
	}
	return 0, false
}

// join adds a subscription. have is the newest frame in the peer's mirror, last that of the channel.
func (p *publisher) join(r *Subscription, have, last uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.countAfter, r.sentBefore, r.bound = last, p.puts.total, newBound(p.cfg.Clock.Now())
	p.subscriptions = append(p.subscriptions, r)
	p.requalified()
	if p.phase == starting {
		publisherTransitions.Move(&p.phase, publishing)
		p.key = newSealingKey(p.cfg.Node, p.cfg.Signer())
	}
	r.sendKey()
	p.wakeUp()
	if have >= last {
		return
	}
	r.countAfter = last - 1 // a new subscriber receives the newest frame (last-value delivery)
	if p.command || p.newest.seq < last {
		return
	}
	// The frame is at the hub unless the hub refused it, but the peer may be unable to fetch it from there.
	p.newest.again = true
	if p.newest.outcome == refused {
		r.counts.by[refused]++
		return
	}
	r.counts.by[sent]++
	r.sentBefore--
	if _, known := p.puts.upTo(last); !known {
		p.puts.add(p.newest.seq)
	}
}

// requalified applies the current QoS of all readers. p.mu must be held.
func (p *publisher) requalified() {
	p.command = p.carriesCommands()
	p.channel.arrivals.SetInterval(p.cfg.Clock.Now(), p.slot())
	p.channel.arrivals.SetCommand(p.command)
}

// Requalify changes the quality of service of the subscription.
func (r *Subscription) Requalify(qos rule.QoS) {
	p := r.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	r.qos = qos
	p.requalified()
	p.wakeUp()
}

// Resend puts the newest frame once more if frame have, the newest of the peer's mirror, is older.
func (r *Subscription) Resend(have uint64) {
	p := r.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	if have < p.newest.seq && !p.command {
		p.newest.again = true
		p.wakeUp()
	}
}

// Stop ends the subscription and closes its counters. The other subscribers get a new key at once, so that the peer cannot
// decrypt frames that it may still fetch.
func (r *Subscription) Stop() {
	r.settle()
	r.counters.Close(r.newest())
	p := r.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subscriptions = slices.DeleteFunc(p.subscriptions, func(o *Subscription) bool { return o == r })
	if r.qos.Class == rule.Command {
		p.cfg.Freed(p.channel.name)
	}
	if len(p.subscriptions) == 0 && p.phase == publishing {
		p.end()
		if p.all.byChannel[p.channel.name] == p {
			delete(p.all.byChannel, p.channel.name)
		}
		return
	}
	p.requalified()
	p.renewKey()
}

// renewKey generates a new key for the next frames and sends it to the readers. p.mu must be held.
func (p *publisher) renewKey() {
	p.key = newSealingKey(p.cfg.Node, p.cfg.Signer())
	for _, r := range p.subscriptions {
		r.sendKey()
	}
	p.newest.again = !p.command // the frame at the hub is sealed with the former key
	p.wakeUp()
}

// sendKey sends the key of the next frames to the peer. publisher.mu must be held.
func (r *Subscription) sendKey() { r.peer.Send(r.publisher.key.message(r.id)) }

// newest returns the number of the newest known frame.
func (r *Subscription) newest() uint64 {
	r.publisher.mu.Lock()
	defer r.publisher.mu.Unlock()
	return max(r.publisher.channel.arrivals.Newest().Seq, r.publisher.newest.seq)
}

// FrameCounters returns the frame counters, and the number of the newest frame that they include.
func (r *Subscription) FrameCounters() (a ledger.FrameCounters, newest uint64) {
	r.settle()
	newest = r.newest()
	return r.counters.FrameCounters(newest), newest
}

// Show adds the state of sending to a status.
func (r *Subscription) Show(s *status.Subscription) {
	p := r.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	s.AgeMs, s.PeriodMs, s.DueMs = p.channel.arrivals.Due(p.cfg.Clock.Now(), r.qos.MaxRate.Interval())
	s.Seq, s.Bytes, s.AtHub = r.arrived, p.newest.size, r.replaced
}

// Problem returns why the last attempt to put a frame failed, nil if it succeeded.
func (r *Subscription) Problem() error { return r.problem }

// settle updates the sender counters from the publisher's counts.
func (r *Subscription) settle() {
	r.publisher.mu.Lock()
	c := r.counts
	r.problem = r.publisher.problem
	r.publisher.mu.Unlock()
	b := r.counters
	b.Superseded = r.countersAtBegin.Superseded + c.superseded + r.replaced
	b.Limited, b.Expired, b.Refused = c.limited, c.by[expired], c.by[refused]
	b.Sent = c.by[sent] - min(r.replaced, c.by[sent])
}

// TakeReport handles the peer's frame counters, which include the frames up to a.Newest, and perhaps later ones.
func (r *Subscription) TakeReport(a wire.FrameCounters) {
	r.settle()
	r.counters.TakeReport(ledger.FromWire(a))
	newest := a.Newest
	r.publisher.mu.Lock()
	sent, ok := r.publisher.puts.upTo(newest)
	r.publisher.mu.Unlock()
	if !ok || newest == 0 {
		return
	}
	t := r.counters.Reported
	came := t.Delivered + t.LateKept + t.Late + t.Refused + t.Superseded
	r.replaced = max(r.replaced, uint64(max(sent-r.sentBefore-int64(came), 0)))
	r.arrived = max(r.arrived, newest)
	r.settle()
}
