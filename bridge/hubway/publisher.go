package hubway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"achbridge/bridge/lock"
	"achbridge/bridge/phases"
	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/seal"
	"achbridge/localach"
	"achbridge/wire"
)

// publisher publishes one channel of this host to the hub, once for all subscribers there. The ring is its queue, as for links:
// it copies the newest frame when the hub has acknowledged enough of those before, seals it and puts it. Its goroutine is run.
type publisher struct {
	cfg     *Config
	all     *Publishers
	channel channel
	at      Channel
	cancel  context.CancelFunc
	wake    chan struct{}
	sending sendState

	mu            lock.Mutex[lock.Publisher] // guards what follows, and channel.request
	phase         publisherPhase
	subscriptions []*Subscription
	key           *sealingKey
	command       bool // the one subscriber takes commands
	newest        newestFrame
	nextPut       nextPut
	puts          putLog
	trouble       error // why the last try to put a frame failed
	sleep         sleepWatch
}

// publisherPhase is how far a publisher has come.
type publisherPhase int

const (
	starting   publisherPhase = iota // nobody has subscribed, and there is no key
	publishing                       // there is a key, and at least one subscription
	ended                            // the last subscription has stopped
)

var publisherTransitions = phases.Transitions[publisherPhase]{
	starting:   {publishing},
	publishing: {ended},
}

// channel is the local channel that a publisher reads.
type channel struct {
	name     string
	epoch    uint64
	copies   *ring.Snapshots
	user     *ring.User
	arrivals *ring.Arrivals
	request  ring.SnapshotRequest
}

// sendState is what is known of frames while they are sealed and sent. It belongs to run.
type sendState struct {
	sealed   []byte
	tooLarge int   // bytes of the smallest frame that the hub refused for its size; 0: none
	refusal  error // of that frame
	wasNamed bool  // the subscribers believe that the last named frame is owed
}

// newestFrame is the newest frame that was put, or given up. It is under the publisher's mu.
type newestFrame struct {
	seq      uint64
	outcome  outcome
	again    bool          // it is put once more
	repeatAt time.Duration // not before then
	size     int           // bytes of the frame that was put last
}

// nextPut says when the next frame may leave. It is under the publisher's mu.
type nextPut struct {
	credit  int           // frames that may be put before the hub acknowledges one
	freeAt  time.Duration // when the rate of the subscribers lets it leave
	retryAt time.Duration // when it is tried again after it could not be put
}

// sleepWatch notices that the host was suspended. It is under the publisher's mu.
type sleepWatch struct {
	suspended time.Duration // for how long the host had been suspended at the last look
	undated   uint64        // of commands: frames up to this one may be of any age
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
		cfg: &t.cfg, all: t, at: t.cfg.Hub.Channel(t.cfg.Host, ch.Name()), cancel: cancel, wake: make(chan struct{}, 1),
		channel: channel{name: ch.Name(), epoch: ch.Epoch(), copies: copies, arrivals: ring.NewArrivals(ch, t.cfg.Clock)},
		newest:  newestFrame{seq: loaded}, nextPut: nextPut{credit: maxCredit}, sleep: sleepWatch{suspended: t.cfg.Suspended()},
	}
	p.channel.user = copies.Join(p.wakeUp)
	p.channel.arrivals.Watch(t.cfg.Source, p.wakeUp)
	t.cfg.Spawn(func() { p.run(ctx) })
	return p
}

// end stops the publisher. Nothing reads the channel any more when it returns. p.mu must be held.
func (p *publisher) end() {
	publisherTransitions.Move(&p.phase, ended)
	p.cancel()
	p.channel.arrivals.Stop()
	p.channel.copies.Leave(p.channel.user)
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
	if f.owed || p.sending.wasNamed { // what was owed is not any more: the hub may bring it still
		p.nameNewest(f.Seq)
		p.sending.wasNamed = f.owed
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
	if p.sending.tooLarge > 0 && len(f.Data) >= p.sending.tooLarge {
		return nil, p.sending.refusal
	}
	room := slices.Grow(p.sending.sealed[:0], len(f.Data)+f.key.Overhead())
	p.sending.sealed, err = f.key.Seal(room, seal.Frame{Epoch: p.channel.epoch, Seq: f.Seq, Captured: f.captured, Owed: f.owed, Data: f.Data})
	if err != nil {
		return nil, err
	}
	acked, err = p.at.Put(ctx, p.sending.sealed)
	if errors.Is(err, ErrTooLarge) {
		p.sending.tooLarge, p.sending.refusal, p.sending.sealed = len(f.Data), err, nil
	}
	return acked, err
}

// left accounts for a frame that is on its way to the hub, or could not be sent there.
func (p *publisher) left(f *sealable, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Clock.Now()
	f.key.used = f.key.Last()
	if errors.Is(err, ErrTooLarge) {
		p.pass(f.Seq, f.passed, refused)
		p.trouble = fmt.Errorf("%s: %w; or have its publisher put smaller frames", p.channel.name, err)
		p.nextPut.credit, p.newest.again = p.nextPut.credit+1, false
		return
	}
	if err != nil {
		p.untaken(err, now)
		p.nextPut.credit++
		return
	}
	if f.Seq > p.newest.seq {
		p.pass(f.Seq, f.passed, sent)
		p.puts.total++
		p.puts.add(f.Seq)
	}
	p.newest.again = f.key != p.key && !p.command // nobody has that key any more
	p.newest.size = len(f.Data)
	p.nextPut.freeAt = max(p.nextPut.freeAt, now) + p.interval()
}

// unreached records that the hub cannot be reached, and returns when to try again.
func (p *publisher) unreached(err error) (again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.untaken(err, p.cfg.Clock.Now())
}

// untaken needs p.mu.
func (p *publisher) untaken(err error, now time.Duration) (again time.Duration) {
	p.trouble, p.nextPut.retryAt = fmt.Errorf("%s: the hub does not take it: %w", p.channel.name, err), now+RetryAfter
	return p.nextPut.retryAt
}

// acknowledged takes the hub's word on frame seq. The newest frame is put once more if it may
// not be there.
func (p *publisher) acknowledged(seq uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextPut.credit++
	switch {
	case err == nil:
		p.trouble = nil
	case seq == p.newest.seq && !p.command:
		p.newest.again, p.newest.repeatAt = true, p.cfg.Clock.Now()+RetryAfter
		p.trouble = fmt.Errorf("%s: the hub does not acknowledge it: %w", p.channel.name, err)
	}
	p.wakeUp()
}

// pass counts the outcome of frame seq, and the frames before it that were passed over: those up to passed, before their slot.
// p.mu must be held.
func (p *publisher) pass(seq, passed uint64, o outcome) {
	if seq <= p.newest.seq {
		return
	}
	for _, s := range p.subscriptions {
		s.counts.add(max(p.newest.seq, s.from), seq, passed, o)
	}
	p.newest.seq, p.newest.outcome = seq, o
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
