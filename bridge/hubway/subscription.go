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
// The methods, other than Pulled, require the link's lock.
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
	qos   rule.QoS
	from  counts // publisher.count at the beginning of the subscription
	bound bound
}

// counts is what became of the frames of a channel that is put at the hub.
type counts struct {
	passed, limited, expired, refused uint64 // not put, by reason
	sent                              uint64 // put
}

// putLog remembers of the latest frames how many had been put by then.
type putLog struct {
	seq, sent [putLogged]uint64
	next      int
}

// putLogged is more than are put between two reports of a reader, at some 500 a second.
const putLogged = 1024

func (g *putLog) add(seq, sent uint64) {
	g.seq[g.next%putLogged], g.sent[g.next%putLogged] = seq, sent
	g.next++
}

// upTo is how many frames had been put when frame seq was; false if that is not remembered.
func (g *putLog) upTo(seq uint64) (sent uint64, ok bool) {
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
	r.from, r.bound = p.count, newBound(p.cfg.Clock.Now())
	p.subscriptions = append(p.subscriptions, r)
	p.requalified()
	if p.key == nil {
		p.key = newSealingKey(p.cfg.Node, p.cfg.Signer())
	}
	r.tellKey()
	if have >= last || p.command {
		p.wakeUp()
		return
	}
	if p.loaded >= last { // it is at the hub, but this reader's hub may have shown it before
		p.again = true
		if p.outcome == &p.count.refused { // or it would be, if the hub had not refused it
			r.from.refused--
		} else {
			r.from.sent--
		}
		if _, known := p.puts.upTo(last); !known {
			p.puts.add(p.loaded, p.count.sent)
		}
	} else {
		r.from.passed += last - 1 - p.loaded
	}
	p.wakeUp()
}

// requalified takes what the readers want now. p.mu must be held.
func (p *publisher) requalified() {
	p.command = p.carriesCommands()
	p.arrivals.SetInterval(p.cfg.Clock.Now(), p.slot())
	p.arrivals.SetCommand(p.command)
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

// Owe puts the newest frame once more if the peer's mirror has only frame have.
func (r *Subscription) Owe(have uint64) {
	p := r.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	if have < p.loaded && !p.command {
		p.again = true
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
		p.cfg.Freed(p.name)
	}
	if len(p.subscriptions) == 0 && !p.ended {
		p.end()
		if p.all.byChannel[p.name] == p {
			delete(p.all.byChannel, p.name)
		}
		return
	}
	p.requalified()
	p.renewKey()
}

// renewKey makes another key for the next frames, and sends it to the readers. p.mu must be held.
func (p *publisher) renewKey() {
	p.key, p.used = newSealingKey(p.cfg.Node, p.cfg.Signer()), 0
	for _, r := range p.subscriptions {
		r.tellKey()
	}
	p.again = !p.command // what is at the hub is sealed with the former key
	p.wakeUp()
}

// tellKey sends the key that the next frames are sealed with. Needs publisher.mu.
func (r *Subscription) tellKey() { r.peer.Send(r.publisher.key.message(r.id, r.publisher.used)) }

// newest returns the number of the newest frame that is known.
func (r *Subscription) newest() uint64 {
	r.publisher.mu.Lock()
	defer r.publisher.mu.Unlock()
	return max(r.publisher.arrivals.Newest().Seq, r.publisher.loaded)
}

// Accounts returns the frame counters, and the newest frame that they include.
func (r *Subscription) Accounts(bool) (a ledger.Accounts, newest uint64) {
	r.settle()
	newest = r.newest()
	return r.book.Accounts(newest), newest
}

// Show adds the state of the sending to a status.
func (r *Subscription) Show(s *status.Subscription) {
	p := r.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	s.AgeMs, s.PeriodMs, s.DueMs = p.arrivals.Due(p.cfg.Clock.Now(), r.qos.MaxRate.Interval())
	s.Seq, s.Bytes, s.AtHub = r.arrived, p.size, r.replaced
}

// Trouble returns why the last try to put a frame failed, nil if none did.
func (r *Subscription) Trouble() error { return r.trouble }

// settle brings the reader's account up to date with what became of the channel's frames.
func (r *Subscription) settle() {
	r.publisher.mu.Lock()
	now := r.publisher.count
	r.trouble = r.publisher.trouble
	r.publisher.mu.Unlock()
	b, from := r.book, r.from
	passed, limited := signed(now.passed, from.passed), signed(now.limited, from.limited)
	if passed < 0 { // frames that were passed over for another reason than it was thought
		passed, limited = 0, max(limited+passed, 0)
	}
	b.Superseded = r.begun.Superseded + uint64(passed) + r.replaced
	b.Limited, b.Expired = uint64(max(limited, 0)), now.expired-from.expired
	b.Refused = uint64(max(signed(now.refused, from.refused), 0))
	b.Sent = uint64(max(signed(now.sent, from.sent)-int64(r.replaced), 0))
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
	r.replaced = max(r.replaced, uint64(max(signed(sent, r.from.sent)-int64(came), 0)))
	r.arrived = max(r.arrived, newest)
	r.settle()
}

func signed(a, b uint64) int64 { return int64(a - b) }
