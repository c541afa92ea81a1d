package bridge

import (
	"slices"

	"achbridge/bridge/ledger"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/wire"
)

// hubReader is a peer's subscription to a channel that is put at the hub. What the peer missed
// there is known by counting: the hub keeps one frame of a channel, so a frame that was put,
// and did not come before a later one came, was replaced at the hub.
type hubReader struct {
	putter *putter
	link   *link
	sub    *subscription

	// Guarded by the link's mu.
	begun    ledger.Book // the account as it was when the subscription began
	replaced uint64      // frames that a newer one replaced at the hub, as far as the peer has told

	// Guarded by putter.mu.
	qos   rule.QoS
	from  hubCounts // what was counted before
	bound bound
}

// hubCounts is what became of the frames of a channel that is put at the hub.
type hubCounts struct {
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

// join makes sub a reader. last is the newest frame of the channel when it subscribed.
func (p *putter) join(l *link, sub *subscription, have, last uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &hubReader{putter: p, link: l, sub: sub, begun: *sub.book, qos: sub.qos, from: p.count, bound: newBound(p.n.now())}
	sub.hub = r
	p.readers = append(p.readers, r)
	p.requalified()
	if p.key == nil {
		p.key = newHubKey(p.n.cfg.Node, p.n.cfg.Endpoint.Signer())
	}
	r.tellKey()
	if have >= last || p.command {
		p.rouse()
		return
	}
	if p.loaded >= last { // it is at the hub, but this reader's hub may have shown it before
		p.again = true
		if p.fate == &p.count.refused { // or it would be, if the hub had not refused it
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
	p.rouse()
}

// requalified takes what the readers want now. Needs p.mu.
func (p *putter) requalified() {
	p.command = p.carriesCommands()
	p.arrivals.SetInterval(p.n.now(), p.slot())
	p.arrivals.SetCommand(p.command)
}

// requalify serves a reader otherwise from now on.
func (r *hubReader) requalify(qos rule.QoS) {
	p := r.putter
	p.mu.Lock()
	defer p.mu.Unlock()
	r.qos = qos
	p.requalified()
	p.rouse()
}

// leave ends a reader. The others get a new key at once: whatever this one may still pull, it
// cannot read.
func (r *hubReader) leave() {
	p := r.putter
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readers = slices.DeleteFunc(p.readers, func(o *hubReader) bool { return o == r })
	if r.qos.Class == rule.Command {
		p.n.admitOthers(p.name)
	}
	if len(p.readers) == 0 && !p.ended {
		p.end()
		if p.n.puts[p.name] == p {
			delete(p.n.puts, p.name)
		}
		return
	}
	p.requalified()
	p.renewKey()
}

// renewKey makes another key for the next frames, and sends it to the readers. p.mu must be held.
func (p *putter) renewKey() {
	p.key, p.used = newHubKey(p.n.cfg.Node, p.n.cfg.Endpoint.Signer()), 0
	for _, r := range p.readers {
		r.tellKey()
	}
	p.again = !p.command // what is at the hub is sealed with the former key
	p.rouse()
}

// tellKey sends the key that the next frames are sealed with. Needs putter.mu.
func (r *hubReader) tellKey() { r.link.send(r.putter.key.message(r.sub.id, r.putter.used)) }

// put is the number of the newest frame that was put.
func (r *hubReader) put() uint64 {
	r.putter.mu.Lock()
	defer r.putter.mu.Unlock()
	return r.putter.loaded
}

// settle brings the reader's account up to date with what became of the channel's frames. Needs
// the link's mu.
func (r *hubReader) settle() {
	r.putter.mu.Lock()
	now := r.putter.count
	r.sub.trouble = r.putter.trouble
	r.putter.mu.Unlock()
	b, from := r.sub.book, r.from
	passed, limited := signed(now.passed, from.passed), signed(now.limited, from.limited)
	if passed < 0 { // frames that were passed over for another reason than it was thought
		passed, limited = 0, max(limited+passed, 0)
	}
	b.Superseded = r.begun.Superseded + uint64(passed) + r.replaced
	b.Limited, b.Expired = uint64(max(limited, 0)), now.expired-from.expired
	b.Refused = uint64(max(signed(now.refused, from.refused), 0))
	b.Sent = uint64(max(signed(now.sent, from.sent)-int64(r.replaced), 0))
}

// heard takes what the reader tells: that it has counted told of the frames up to newest, and
// perhaps of later ones. Needs the link's mu.
func (r *hubReader) heard(newest uint64) {
	r.putter.mu.Lock()
	sent, ok := r.putter.puts.upTo(newest)
	r.putter.mu.Unlock()
	if !ok || newest == 0 {
		return
	}
	t := r.sub.book.Told
	came := t.Delivered + t.LateKept + t.Late + t.Refused + t.Superseded
	r.replaced = max(r.replaced, uint64(max(signed(sent, r.from.sent)-int64(came), 0)))
	r.sub.arrived = max(r.sub.arrived, newest)
	r.settle()
}

func signed(a, b uint64) int64 { return int64(a - b) }

// newHubSubscription prepares what a peer gets of a channel through the hub.
func newHubSubscription(m wire.Subscribe, qos rule.QoS, c *local, b *ledger.Book, clock ring.Clock) *subscription {
	ch := c.ch
	sub := &subscription{
		id: m.ID, channel: ch.Name(), epoch: ch.Epoch(), qos: qos, ch: ch, clock: clock, book: b,
		arrived: m.HaveSeq, raw: ch.Geometry().FrameSize, size: ch.Geometry().FrameSize,
	}
	b.Begin(sub.epoch, m.HaveSeq, ch.LastSeq())
	return sub
}
