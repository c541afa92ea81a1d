package hubway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"achbridge/bridge/lock"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/seal"
	"achbridge/localach"
	"achbridge/wire"
)

// publisher publishes one channel of this host to the hub, once for all subscribers there. The ring is its queue, as for links:
// it copies the newest frame when the hub has acknowledged enough of those before, seals it and puts it. Its goroutine is run.
type publisher struct {
	cfg      *Config
	all      *Publishers
	name     string
	epoch    uint64
	copies   *ring.Snapshots
	user     *ring.User
	arrivals *ring.Arrivals
	at       Channel
	cancel   context.CancelFunc
	wake     chan struct{}

	// These belong to run.
	sealed   []byte
	tooLarge int   // bytes of the smallest frame that the hub refused for its size; 0: none
	refusal  error // of that frame
	wasNamed bool  // the subscribers believe that the last named frame is owed

	mu            lock.Mutex[lock.Publisher] // guards what follows
	subscriptions []*Subscription
	ended         bool
	key           *sealingKey
	used          uint64        // counter of the newest frame that key has sealed and that has left, or could not
	command       bool          // the one subscriber takes commands
	credit        int           // frames that may be put before the hub acknowledges one
	again         bool          // the newest frame is put once more
	repeatAt      time.Duration // not before then
	loaded        uint64        // number of the newest frame that was put, or given up
	outcome       outcome       // of that frame
	freeAt        time.Duration // when the rate of the subscribers lets the next frame leave
	retryAt       time.Duration
	request       ring.SnapshotRequest
	size          int   // bytes of the frame that was put last
	trouble       error // why the last try to put a frame failed
	sent          int64 // number of frames put
	puts          putLog
	suspended     time.Duration // for how long the host had been suspended at the last look
	undated       uint64        // of commands: frames up to this one may be of any age
}

const (
	// maxCredit is how many frames may wait for the hub's acknowledgement: one on its way, and one that follows it while that
	// acknowledgement comes back.
	maxCredit = 2
	// RetryAfter is how soon a frame is tried again that could not be put.
	RetryAfter = 100 * time.Millisecond
)

// publish begins to watch a channel.
func (t *Publishers) publish(ch *localach.Channel, copies *ring.Snapshots, loaded uint64) *publisher {
	ctx, cancel := context.WithCancel(t.ctx)
	p := &publisher{
		cfg: &t.cfg, all: t, name: ch.Name(), epoch: ch.Epoch(), copies: copies, at: t.cfg.Hub.Channel(t.cfg.Host, ch.Name()), cancel: cancel,
		arrivals: ring.NewArrivals(ch, t.cfg.Clock), wake: make(chan struct{}, 1), credit: maxCredit, loaded: loaded,
		suspended: t.cfg.Suspended(),
	}
	p.user = copies.Join(p.wakeUp)
	p.arrivals.Watch(t.cfg.Source, p.wakeUp)
	t.cfg.Spawn(func() { p.run(ctx) })
	return p
}

// end stops the publisher. Nothing reads the channel any more when it returns. p.mu must be held.
func (p *publisher) end() {
	p.ended = true
	p.cancel()
	p.arrivals.Stop()
	p.copies.Leave(p.user)
}

func (p *publisher) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run puts frames until ctx ends.
func (p *publisher) run(ctx context.Context) {
	defer p.at.Close()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		f, again := p.next(ctx)
		if f != nil {
			p.put(ctx, f)
			continue
		}
		timer.Reset(max(again-p.cfg.Clock.Now(), 0))
		select {
		case <-p.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// next waits until a frame would leave at once, and copies the newest one then.
func (p *publisher) next(ctx context.Context) (f *sealable, again time.Duration) {
	size, again := p.due(p.cfg.Clock.Now())
	if again > 0 {
		return nil, again
	}
	if err := p.at.Room(ctx, size); err != nil {
		return nil, p.unreached(err)
	}
	return p.load(p.cfg.Clock.Now())
}

// sealable is a frame that is to be put now.
type sealable struct {
	*ring.Snapshot
	key      *sealingKey
	captured time.Duration
	owed     bool
	passed   uint64 // newest frame that was passed over before its slot
}

// put seals f and has the hub store it. A frame that could not be put stays in the ring, where
// a newer one may take its place before the next try.
func (p *publisher) put(ctx context.Context, f *sealable) {
	defer f.Release()
	if f.owed || p.wasNamed { // what was owed is not any more: the hub may bring it still
		p.nameNewest(f.Seq)
		p.wasNamed = f.owed
	}
	acked, err := p.send(ctx, f)
	p.left(f, err)
	if err != nil {
		return
	}
	seq := f.Seq
	p.cfg.Spawn(func() {
		select {
		case err := <-acked:
			p.acknowledged(seq, err)
		case <-ctx.Done():
		}
	})
}

// send seals f and has it leave. A frame that the hub would refuse for its size costs nothing: the limit
// stays what it is as long as the connection, and so the readers.
func (p *publisher) send(ctx context.Context, f *sealable) (acked <-chan error, err error) {
	if p.tooLarge > 0 && len(f.Data) >= p.tooLarge {
		return nil, p.refusal
	}
	room := slices.Grow(p.sealed[:0], len(f.Data)+f.key.Overhead())
	p.sealed, err = f.key.Seal(room, seal.Frame{Epoch: p.epoch, Seq: f.Seq, Captured: f.captured, Owed: f.owed, Data: f.Data})
	if err != nil {
		return nil, err
	}
	acked, err = p.at.Put(ctx, p.sealed)
	if errors.Is(err, ErrTooLarge) {
		p.tooLarge, p.refusal, p.sealed = len(f.Data), err, nil
	}
	return acked, err
}

// left accounts for a frame that is on its way to the hub, or could not be sent there.
func (p *publisher) left(f *sealable, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Clock.Now()
	if f.key == p.key {
		p.used = f.key.Last()
	}
	if errors.Is(err, ErrTooLarge) {
		p.pass(f.Seq, f.passed, refused)
		p.trouble = fmt.Errorf("%s: %w; or have its publisher put smaller frames", p.name, err)
		p.credit, p.again = p.credit+1, false
		return
	}
	if err != nil {
		p.untaken(err, now)
		p.credit++
		return
	}
	if f.Seq > p.loaded {
		p.pass(f.Seq, f.passed, sent)
		p.sent++
		p.puts.add(f.Seq, p.sent)
	}
	p.again = f.key != p.key && !p.command // nobody has that key any more
	p.size = len(f.Data)
	p.freeAt = max(p.freeAt, now) + p.interval()
}

// unreached records that the hub cannot be reached, and returns when to try again.
func (p *publisher) unreached(err error) (again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.untaken(err, p.cfg.Clock.Now())
}

// untaken needs p.mu.
func (p *publisher) untaken(err error, now time.Duration) (again time.Duration) {
	p.trouble, p.retryAt = fmt.Errorf("%s: the hub does not take it: %w", p.name, err), now+RetryAfter
	return p.retryAt
}

// acknowledged takes the hub's word on frame seq. The newest frame is put once more if it may
// not be there.
func (p *publisher) acknowledged(seq uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.credit++
	switch {
	case err == nil:
		p.trouble = nil
	case seq == p.loaded && !p.command:
		p.again, p.repeatAt = true, p.cfg.Clock.Now()+RetryAfter
		p.trouble = fmt.Errorf("%s: the hub does not acknowledge it: %w", p.name, err)
	}
	p.wakeUp()
}

// pass counts the outcome of frame seq, and the frames before it that were passed over: those up to passed, before their slot.
// p.mu must be held.
func (p *publisher) pass(seq, passed uint64, o outcome) {
	if seq <= p.loaded {
		return
	}
	for _, s := range p.subscriptions {
		s.counts.add(max(p.loaded, s.from), seq, passed, o)
	}
	p.loaded, p.outcome = seq, o
}

// nameNewest sends the number of the newest frame to the subscribers over their control streams. They put a frame past its
// budget only if the origin has named it so.
func (p *publisher) nameNewest(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.subscriptions {
		r.peer.Send(wire.Newest{Sub: r.id, Seq: seq})
	}
}

// over reports that a frame captured then is past the budget of every reader. p.mu must be held.
func (p *publisher) over(captured, now time.Duration) bool {
	return !slices.ContainsFunc(p.subscriptions, func(r *Subscription) bool {
		return !r.qos.IsPastBudget(captured, now)
	})
}

// slot is the least time between two frames by the max_rate of the readers. p.mu must be held.
func (p *publisher) slot() time.Duration {
	least := time.Duration(-1)
	for _, r := range p.subscriptions {
		if every := r.qos.MaxRate.Interval(); least < 0 || every < least {
			least = every
		}
	}
	return max(least, 0)
}

// carriesCommands needs p.mu.
func (p *publisher) carriesCommands() bool {
	return slices.ContainsFunc(p.subscriptions, func(r *Subscription) bool { return r.qos.Class == rule.Command })
}
