package hubway

import (
	"slices"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// Subscription is one peer's subscription to a channel that is published to the hub. It counts what the peer missed there: the
// hub keeps one frame of a channel, so a frame that was put, and did not arrive before a later one did, was replaced at the hub.
//
// The methods belong to the node's goroutine.
type Subscription struct {
	publisher *publisher
	id        uint32
	peer      Peer
	book      *ledger.Book
	begun     ledger.Book // book at the beginning of the subscription
	arrived   uint64      // newest frame that the peer has counted
	replaced  uint64      // frames that a newer one replaced at the hub, as far as the peer has told
	trouble   error

	// Guarded by publisher.mu.
	qos        rule.QoS
	from       uint64 // frames up to this one are not counted
	counts     counts
	sentBefore int64 // publisher.puts.total at the beginning of the subscription
	bound      bound
}

// outcome names the result of a loaded frame.
type outcome int

const (
	sent outcome = iota
	expired
	refused
	outcomes
)

// counts are the frames of a subscription by outcome, and those that were passed over for a newer one or for their slot.
type counts struct {
	by                  [outcomes]uint64
	superseded, limited uint64
}

// add counts the frames after base up to seq. Those up to passed were there before their slot.
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

// putLog remembers of the latest frames how many had been put by then.
type putLog struct {
	total int64 // frames put
	seq   [putLogged]uint64
	sent  [putLogged]int64 // total at that time
	next  int
}

// putLogged is more than are put between two reports of a reader, at some 500 a second.
const putLogged = 1024

func (g *putLog) add(seq uint64) {
	g.seq[g.next%putLogged], g.sent[g.next%putLogged] = seq, g.total
	g.next++
}

// upTo is how many frames had been put when frame seq was; false if that is not remembered.
func (g *putLog) upTo(seq uint64) (sent int64, ok bool) {
	for back := 1; back <= min(g.next, putLogged); back++ {
		if i := (g.next - back) % putLogged; g.seq[i] <= seq {
			return g.sent[i], g.seq[i] == seq
		}
	}
	return 0, false
}

// join adds a subscription. last is the newest frame of the channel.
func (p *publisher) join(r *Subscription, have, last uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.from, r.sentBefore, r.bound = last, p.puts.total, newBound(p.cfg.Clock.Now())
	p.subscriptions = append(p.subscriptions, r)
	p.requalified()
	if p.phase == starting {
		publisherTransitions.Move(&p.phase, publishing)
		p.key = newSealingKey(p.cfg.Node, p.cfg.Signer())
	}
	r.tellKey()
	p.wakeUp()
	if have >= last {
		return
	}
	r.from = last - 1 // the newest frame is owed to a new subscriber
	if p.command || p.newest.seq < last {
		return
	}
	// The frame is at the hub, or would be if the hub had not refused it. The peer may not get it from there any more.
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

// requalified takes what the readers want now. p.mu must be held.
func (p *publisher) requalified() {
	p.command = p.carriesCommands()
	p.channel.arrivals.SetInterval(p.cfg.Clock.Now(), p.slot())
	p.channel.arrivals.SetCommand(p.command)
}

// Requalify serves the subscription by another quality of service.
func (r *Subscription) Requalify(qos rule.QoS) {
	p := r.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	r.qos = qos
	p.requalified()
	p.wakeUp()
}

// Resend puts the newest frame once more if the peer's mirror has only frame have.
func (r *Subscription) Resend(have uint64) {
	p := r.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	if have < p.newest.seq && !p.command {
		p.newest.again = true
		p.wakeUp()
	}
}

// Stop ends the subscription and closes its book. The other subscribers get a new key at once, so that the peer cannot read what
// it may still fetch. The node's goroutine calls it.
func (r *Subscription) Stop() {
	r.settle()
	r.book.Close(r.newest())
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

// renewKey makes another key for the next frames, and sends it to the readers. p.mu must be held.
func (p *publisher) renewKey() {
	p.key = newSealingKey(p.cfg.Node, p.cfg.Signer())
	for _, r := range p.subscriptions {
		r.tellKey()
	}
	p.newest.again = !p.command // what is at the hub is sealed with the former key
	p.wakeUp()
}

// tellKey sends the key that the next frames are sealed with. Needs publisher.mu.
func (r *Subscription) tellKey() { r.peer.Send(r.publisher.key.message(r.id)) }

// newest returns the number of the newest frame that is known.
func (r *Subscription) newest() uint64 {
	r.publisher.mu.Lock()
	defer r.publisher.mu.Unlock()
	return max(r.publisher.channel.arrivals.Newest().Seq, r.publisher.newest.seq)
}

// Accounts returns the frame counters, and the newest frame that they include.
func (r *Subscription) Accounts() (a ledger.Accounts, newest uint64) {
	r.settle()
	newest = r.newest()
	return r.book.Accounts(newest), newest
}

// Show adds the state of the sending to a status.
func (r *Subscription) Show(s *status.Subscription) {
	p := r.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	s.AgeMs, s.PeriodMs, s.DueMs = p.channel.arrivals.Due(p.cfg.Clock.Now(), r.qos.MaxRate.Interval())
	s.Seq, s.Bytes, s.AtHub = r.arrived, p.newest.size, r.replaced
}

// Trouble returns why the last try to put a frame failed, nil if none did.
func (r *Subscription) Trouble() error { return r.trouble }

// settle brings the book up to date.
func (r *Subscription) settle() {
	r.publisher.mu.Lock()
	c := r.counts
	r.trouble = r.publisher.trouble
	r.publisher.mu.Unlock()
	b := r.book
	b.Superseded = r.begun.Superseded + c.superseded + r.replaced
	b.Limited, b.Expired, b.Refused = c.limited, c.by[expired], c.by[refused]
	b.Sent = c.by[sent] - min(r.replaced, c.by[sent])
}

// Hear takes the account of the peer, which has counted the frames up to a.Newest, and perhaps later ones.
func (r *Subscription) Hear(a wire.Account) {
	r.settle()
	r.book.Hear(ledger.FromWire(a))
	newest := a.Newest
	r.publisher.mu.Lock()
	sent, ok := r.publisher.puts.upTo(newest)
	r.publisher.mu.Unlock()
	if !ok || newest == 0 {
		return
	}
	t := r.book.Told
	came := t.Delivered + t.LateKept + t.Late + t.Refused + t.Superseded
	r.replaced = max(r.replaced, uint64(max(sent-r.sentBefore-int64(came), 0)))
	r.arrived = max(r.arrived, newest)
	r.settle()
}
