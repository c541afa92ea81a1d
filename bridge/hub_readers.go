package bridge

import (
	"slices"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// hubReader is the plane of an export through the hub. It counts what the peer missed there: the hub keeps one frame of a
// channel, so a frame that was put, and did not arrive before a later one did, was replaced at the hub.
type hubReader struct {
	*export
	putter *putter
	link   *link

	// Guarded by the link's mu.
	begun    ledger.Book // the account as it was when the subscription began
	replaced uint64      // frames that a newer one replaced at the hub, as far as the peer has told

	// Guarded by putter.mu.
	granted rule.QoS  // the export's qos, which the link's mu guards
	from    hubCounts // what was counted before
	bound   bound
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

// join adds the reader of an export. last is the newest frame of the channel when it subscribed.
func (p *putter) join(l *link, x *export, have, last uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &hubReader{export: x, putter: p, link: l, begun: *x.book, granted: x.qos, from: p.count, bound: newBound(p.n.now())}
	x.plane = r
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

func (r *hubReader) requalify(rule.QoS, time.Duration) {
	p := r.putter
	p.mu.Lock()
	defer p.mu.Unlock()
	r.granted = r.qos
	p.requalified()
	p.rouse()
}

// stop gives the other readers a new key at once: whatever this one may still pull, it cannot read.
func (r *hubReader) stop() {
	r.settle()
	r.book.Close(r.newest())
	p := r.putter
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readers = slices.DeleteFunc(p.readers, func(o *hubReader) bool { return o == r })
	if r.granted.Class == rule.Command {
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
func (r *hubReader) tellKey() { r.link.send(r.putter.key.message(r.id, r.putter.used)) }

// newest returns the number of the newest frame that is known.
func (r *hubReader) newest() uint64 {
	r.putter.mu.Lock()
	defer r.putter.mu.Unlock()
	return max(r.arrivals.Newest().Seq, r.putter.loaded)
}

func (r *hubReader) accounts(bool) (a ledger.Accounts, newest uint64) {
	r.settle()
	newest = r.newest()
	return r.book.Accounts(newest), newest
}

func (r *hubReader) show(s *status.Subscription) {
	r.putter.mu.Lock()
	defer r.putter.mu.Unlock()
	s.Bytes, s.AtHub = r.putter.size, r.replaced
}

// settle brings the reader's account up to date with what became of the channel's frames. Needs
// the link's mu.
func (r *hubReader) settle() {
	r.putter.mu.Lock()
	now := r.putter.count
	r.trouble = r.putter.trouble
	r.putter.mu.Unlock()
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

// hear takes the account of the peer, which has counted the frames up to a.Newest, and perhaps later ones.
func (r *hubReader) hear(a wire.Account) {
	r.settle()
	r.book.Hear(ledger.FromWire(a))
	newest := a.Newest
	r.putter.mu.Lock()
	sent, ok := r.putter.puts.upTo(newest)
	r.putter.mu.Unlock()
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
