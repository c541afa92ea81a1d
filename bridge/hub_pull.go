package bridge

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"achbridge/bridge/lock"
	"achbridge/bridge/mirror"
	"achbridge/bridge/ring"
	"achbridge/bridge/seal"
	"achbridge/bridge/transport"
	"achbridge/bridge/via"
	"achbridge/wire"

	"golang.org/x/time/rate"
)

// pull feeds one mirror from the hub. The hub is an adversary: what it brings is put only if it is
// sealed with the key that the origin has sent over the living control session, and newer than all
// that came before. Its goroutine is run.
type pull struct {
	l      *link
	sub    uint32
	in     *inbound
	at     HubChannel
	cancel context.CancelFunc
	told   pullTally // to the origin and as events; the node's

	newest   atomic.Uint64 // number of the newest frame that went to the mirror
	replaced atomic.Uint64 // the tally's

	mu           lock.Mutex[lock.Pull] // guards what follows
	key          *hubOpener
	named        uint64        // newest frame that the origin has named over control
	unkeyed      []byte        // a frame whose key may be on its way; nil: none
	held         *heldFrame    // an opened frame for which a word of the origin is on its way; nil: none
	strange      int           // frames of another key since the present one came
	again        *rate.Limiter // for the newest frame to come again
	tally        pullTally
	opened       []byte // memory of the frame that was opened last
	decompressor ring.Decompressor
}

// heldFrame is a frame that was opened.
type heldFrame struct {
	seal.Frame
	sent int // bytes that it took
}

// pullTally counts what came from the hub.
type pullTally struct {
	received uint64 // frames that were sealed by the origin
	replaced uint64 // frames that it put, and that did not come before later ones did
	forged   uint64 // not sealed by the origin
	replayed uint64 // come again, or after later ones
}

// keptUp reports whether most frames that were put since then came: for such a frame, a pull was
// waiting at the hub. A jolt on the way may cost some all the same.
func (t pullTally) keptUp(since pullTally) bool {
	missed := t.replaced - since.replaced
	return missed < missedFew || missed*missedOne <= t.received-since.received
}

const (
	// Of so many frames that come one may be replaced at the hub, and a few in any case, without the
	// reader being slow. Of one that is, boundSpare makes a fourth.
	missedOne = 5
	missedFew = 3
	// strangers is how many frames of another key may be at the hub, or on their way, when the
	// origin changes it.
	strangers = 4
	// mostSealed is more than a sealed frame is longer than its data.
	mostSealed = seal.Before + 1<<10
	// A connection to the hub begins with the newest frame, which may have come over the last one.
	anewAtOnce = 2
	anewEvery  = 10 * time.Second
)

// keyed takes a key of the origin for one of our subscriptions.
func (n *Node) keyed(l *link, m wire.Key) {
	in := l.inbound(m.Sub)
	if in == nil || !l.overHub() || n.cfg.Hub == nil {
		return
	}
	if in.pull == nil {
		l.startPull(m.Sub, in)
	}
	in.pull.take(newHubOpener(m, l.s))
}

// startPull begins to pull the frames of a subscription.
func (l *link) startPull(id uint32, in *inbound) {
	ctx, cancel := context.WithCancel(l.n.ctx)
	p := &pull{
		l: l, sub: id, in: in, cancel: cancel, at: l.n.cfg.Hub.Channel(l.s.Peer().Host, in.m.Channel), named: in.last,
		again: rate.NewLimiter(rate.Every(anewEvery), anewAtOnce),
	}
	l.inMu.Lock()
	in.pull = p
	l.inMu.Unlock()
	l.n.work.Go(func() { p.run(ctx) })
}

// end stops the pull, and does not wait for it. A frame that it has in its hands goes nowhere, since the mirror has another
// feed or none.
func (p *pull) end() {
	if p != nil {
		p.cancel()
	}
}

// take begins to accept the frames of another key.
func (p *pull) take(key *hubOpener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.strange = key, 0
	if b := p.unkeyed; b != nil {
		p.unkeyed = nil
		p.accept(b)
	}
}

// name takes the origin's word that frame seq is its newest.
func (p *pull) name(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.named = max(p.named, seq)
	p.retry()
}

// retry looks at the frame that was held once more. Needs p.mu.
func (p *pull) retry() {
	if f := p.held; f != nil {
		p.held = nil
		p.put(f)
	}
}

// clockKnown looks at the frame that was held once more.
func (p *pull) clockKnown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retry()
}

// run pulls frames until ctx ends. Without a connection it tries again and again.
func (p *pull) run(ctx context.Context) {
	defer p.at.Close()
	for failures := 0; ctx.Err() == nil; {
		b, err := p.at.Next(ctx)
		if err != nil {
			failures++
			pause(ctx, backoff(failures, hubBackoff))
			continue
		}
		failures = 0
		p.mu.Lock()
		p.accept(b)
		p.mu.Unlock()
	}
}

// accept opens one frame, keeps it until its key has come, or counts it as no good. Needs p.mu.
func (p *pull) accept(b []byte) {
	id, err := seal.KeyOf(b)
	switch {
	case err != nil, len(b) > p.in.limit+mostSealed:
		p.tally.forged++
		return
	case p.key == nil || id != p.key.id:
		if p.strange++; p.strange > strangers {
			p.tally.forged++
		}
		p.unkeyed = b // whatever came before it
		return
	}
	before := p.key.Last()
	f, err := p.key.Open(p.opened[:0], b)
	switch {
	case errors.Is(err, seal.ErrReplayed):
		p.repeated(before)
	case err != nil, f.Epoch != p.in.feed.Epoch:
		p.tally.forged++
	default:
		p.opened = f.Data
		p.tally.received++
		p.tally.replaced += p.key.Last() - before - 1
		p.replaced.Store(p.tally.replaced)
		p.held = nil
		p.put(&heldFrame{f, len(b)})
	}
}

// repeated judges a frame that is not newer than those that were opened. Needs p.mu.
func (p *pull) repeated(last uint64) {
	if last < p.key.from && p.strange < strangers { // from before the subscription
		p.strange++
		return
	}
	if !p.again.Allow() {
		p.tally.replayed++
	}
}

// put brings a frame into the mirror, or holds it until the word that it needs has come: how old it
// is by the origin's clock, or that it is the newest there. Needs p.mu.
func (p *pull) put(f *heldFrame) {
	at := p.l.readClock()
	if f.Owed && f.Seq > p.named || !at.Known && f.Captured != 0 {
		p.held = &heldFrame{f.Frame, f.sent}
		p.held.Data = bytes.Clone(f.Data)
		return
	}
	data, err := p.decompressor.Decompress(f.Codec, f.RawSize, p.in.limit, f.Data)
	if err != nil {
		p.in.m.RefuseFrame(&p.in.feed, err)
		p.newest.Store(max(p.newest.Load(), f.Seq))
		return
	}
	p.in.m.Put(mirror.Arrival{
		From: &p.in.feed, Epoch: f.Epoch, Seq: f.Seq, Captured: f.Captured, Owed: f.Owed && f.Seq == p.named, Past: f.Owed, At: at, Data: data, Sent: f.sent,
	})
	p.newest.Store(max(p.newest.Load(), f.Seq)) // when it is counted: see tellLedger
}

// overHub reports whether frames of the link's subscriptions go through the hub.
func (l *link) overHub() bool { return overHub(l.s) }

func overHub(s *transport.Session) bool { return s.Transport() == via.Hub }

// pulls are the pulls of l.
func (l *link) pulls() (list []*pull) {
	l.inMu.RLock()
	defer l.inMu.RUnlock()
	for _, in := range l.imports {
		if in.pull != nil {
			list = append(list, in.pull)
		}
	}
	return list
}
