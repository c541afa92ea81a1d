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

// publisher publishes one local channel to the hub, once for all subscribers. The ring is its queue, as for links. When
// the hub has acknowledged enough earlier frames, the publisher copies the newest frame, seals it and puts it. Its
// goroutine is run.
type publisher struct {
	cfg     *Config
	all     *Publishers
	channel channel
	at      Channel
	cancel  context.CancelFunc
	wake    chan struct{}
	sending sendState

	mu            lock.Mutex[lock.Publisher] // guards the fields below and channel.request
	phase         publisherPhase
	subscriptions []*Subscription
	key           *sealingKey
	command       bool // the only subscriber has class command
	newest        newestFrame
	nextPut       nextPut
	puts          putLog
	problem       error // why the last attempt to put a frame failed; nil after an acknowledgement
	sleep         sleepWatch
}

// publisherPhase is the lifecycle phase of a publisher.
type publisherPhase int

const (
	starting   publisherPhase = iota // no subscription and no key yet
	publishing                       // there is a key and at least one subscription
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

// sendState is the state of sealing and sending. Only run uses it.
type sendState struct {
	sealed   []byte
	tooLarge int   // size of the smallest frame that the hub refused as too large, bytes; 0 means none
	refusal  error // error for the frame of that size
	wasNamed bool  // the subscribers treat the last announced frame as last-value delivery
}

// newestFrame describes the newest frame that was put or skipped. The publisher's mu guards it.
type newestFrame struct {
	seq      uint64
	outcome  outcome
	again    bool          // the frame is to be put once more
	repeatAt time.Duration // earliest time to put the frame once more
	size     int           // size of the frame that was put last, bytes
}

// nextPut decides when the next frame may be sent. The publisher's mu guards it.
type nextPut struct {
	credit  int           // frames that may be put before the next acknowledgement of the hub
	freeAt  time.Duration // earliest time by the subscribers' rate
	retryAt time.Duration // earliest retry after a failed put
}

// sleepWatch detects that the host was suspended. The publisher's mu guards it.
type sleepWatch struct {
	suspended time.Duration // total time that the host had been suspended at the last check
	undated   uint64        // commands up to this frame number have an unknown age
}

const (
	// maxCredit is how many frames may wait for the hub's acknowledgement: one in flight, and one that is sent while the
	// acknowledgement returns.
	maxCredit = 2
	// RetryAfter is the delay before a failed put is retried.
	RetryAfter = 100 * time.Millisecond
)

// publish starts the publisher of a channel.
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

// end stops the publisher. After it returns, the publisher no longer reads the channel. p.mu must be held.
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

// run publishes frames until ctx ends.
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

// next waits until a frame could be sent at once, and then copies the newest one.
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

// sealable is a frame to seal and put now.
type sealable struct {
	*ring.Snapshot
	key         *sealingKey
	captured    time.Duration
	isLastValue bool
	passed      uint64 // newest frame that was skipped because its slot had not begun
}

// put seals f and stores it at the hub. A frame that could not be put stays in the ring, where a newer one may replace
// it before the retry.
func (p *publisher) put(ctx context.Context, f *sealable) {
	defer f.Release()
	if f.isLastValue || p.sending.wasNamed { // the last named frame is no longer last-value, but the hub may still deliver it
		p.nameNewest(f.Seq)
		p.sending.wasNamed = f.isLastValue
	}
	acked, err := p.send(ctx, f)
	p.recordPut(f, err)
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

// send seals f and puts it. A frame larger than the hub's limit is refused here without sealing. The limit is constant
// for a connection, and so are the readers.
func (p *publisher) send(ctx context.Context, f *sealable) (acked <-chan error, err error) {
	if p.sending.tooLarge > 0 && len(f.Data) >= p.sending.tooLarge {
		return nil, p.sending.refusal
	}
	room := slices.Grow(p.sending.sealed[:0], len(f.Data)+f.key.Overhead())
	p.sending.sealed, err = f.key.Seal(room, seal.Frame{Epoch: p.channel.epoch, Seq: f.Seq, Captured: f.captured, LastValue: f.isLastValue, Data: f.Data})
	if err != nil {
		return nil, err
	}
	acked, err = p.at.Put(ctx, p.sending.sealed)
	if errors.Is(err, ErrTooLarge) {
		p.sending.tooLarge, p.sending.refusal, p.sending.sealed = len(f.Data), err, nil
	}
	return acked, err
}

// recordPut records that a frame was sent to the hub, or that sending failed.
func (p *publisher) recordPut(f *sealable, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Clock.Now()
	f.key.used = f.key.Last()
	if errors.Is(err, ErrTooLarge) {
		p.pass(f.Seq, f.passed, refused)
		p.problem = fmt.Errorf("%s: %w; or have its publisher put smaller frames", p.channel.name, err)
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
	p.newest.again = f.key != p.key && !p.command // the key has been replaced, so no subscriber can open the frame
	p.newest.size = len(f.Data)
	p.nextPut.freeAt = max(p.nextPut.freeAt, now) + p.interval()
}

// unreached records that the hub cannot be reached, and returns when to retry.
func (p *publisher) unreached(err error) (again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.untaken(err, p.cfg.Clock.Now())
}

// untaken records why the hub did not take a frame, and returns when to retry. p.mu must be held.
func (p *publisher) untaken(err error, now time.Duration) (again time.Duration) {
	p.problem, p.nextPut.retryAt = fmt.Errorf("%s: the hub does not take it: %w", p.channel.name, err), now+RetryAfter
	return p.nextPut.retryAt
}

// acknowledged handles the hub's acknowledgement of frame seq. If err is not nil and seq is the newest frame, the frame
// is put once more.
func (p *publisher) acknowledged(seq uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextPut.credit++
	switch {
	case err == nil:
		p.problem = nil
	case seq == p.newest.seq && !p.command:
		p.newest.again, p.newest.repeatAt = true, p.cfg.Clock.Now()+RetryAfter
		p.problem = fmt.Errorf("%s: the hub does not acknowledge it: %w", p.channel.name, err)
	}
	p.wakeUp()
}

// pass counts the outcome of frame seq, and the frames skipped before it. Those up to passed were skipped because their
// slot had not begun. p.mu must be held.
func (p *publisher) pass(seq, passed uint64, o outcome) {
	if seq <= p.newest.seq {
		return
	}
	for _, s := range p.subscriptions {
		s.counts.add(max(p.newest.seq, s.countAfter), seq, passed, o)
	}
	p.newest.seq, p.newest.outcome = seq, o
}

// nameNewest sends the number of the newest frame to the subscribers over their control streams. They put a frame past
// its budget only if the origin has announced it this way.
func (p *publisher) nameNewest(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.subscriptions {
		r.peer.Send(wire.Newest{Sub: r.id, Seq: seq})
	}
}

// over reports whether a frame captured at that time is past the budget of every reader. p.mu must be held.
func (p *publisher) over(captured, now time.Duration) bool {
	return !slices.ContainsFunc(p.subscriptions, func(r *Subscription) bool {
		return !r.qos.IsPastBudget(captured, now)
	})
}

// slot returns the minimum interval between two frames: the shortest that the readers' max_rate allows. p.mu must be
// held.
func (p *publisher) slot() time.Duration {
	least := time.Duration(-1)
	for _, r := range p.subscriptions {
		if every := r.qos.MaxRate.Interval(); least < 0 || every < least {
			least = every
		}
	}
	return max(least, 0)
}

// carriesCommands reports whether a subscription has class command. p.mu must be held.
func (p *publisher) carriesCommands() bool {
	return slices.ContainsFunc(p.subscriptions, func(r *Subscription) bool { return r.qos.Class == rule.Command })
}
