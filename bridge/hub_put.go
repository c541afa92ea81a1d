package bridge

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
	"achbridge/wire"
)

// putter puts one channel of this host at the hub, once for all who read it there. The ring is
// its queue, as for links: it copies the newest frame out of it when the hub has acknowledged
// enough of those before, seals it and puts it. Its goroutine is run.
type putter struct {
	n        *Node
	name     string
	epoch    uint64
	copies   *ring.Snapshots
	arrivals *ring.Arrivals
	at       HubChannel
	cancel   context.CancelFunc
	user     *ring.User
	wake     chan struct{}
	sealed   []byte // run's
	giant    int    // run's: bytes of the smallest frame that the hub refused for its size; 0: none
	refusal  error  // run's: of that frame
	named    bool   // run's: the readers take the last frame that was named for owed

	mu      lock.Mutex[lock.Putter] // guards what follows
	readers []*hubReader
	ended   bool
	key     *hubKey
	used    uint64        // counter of the newest frame that key has sealed and that has left, or could not
	command bool          // the one reader takes commands
	credit  int           // frames that may be put before the hub acknowledges one
	again   bool          // the newest frame is put once more
	repeat  time.Duration // not before then
	loaded  uint64        // number of the newest frame that was put, or given up
	fate    *uint64       // where count has that frame
	free    time.Duration // when the rate of the readers lets the next frame leave
	retry   time.Duration
	request ring.SnapshotRequest
	size    int   // bytes of the frame that was put last
	trouble error // why the last try to put a frame failed
	count   hubCounts
	puts    putLog
	asleep  time.Duration // for how long the host had been suspended when it was looked at
	undated uint64        // of commands: frames up to this one may be of any age
}

// hubCredit is how many frames may wait for the hub's word: one that is on its way, and one
// that follows it while that word comes back.
const hubCredit = 2

// hubRetry is how soon a frame is tried again that could not be put.
const hubRetry = 100 * time.Millisecond

// newPutter begins to watch a channel for its readers at the hub.
func (n *Node) newPutter(c *local, loaded uint64) *putter {
	ctx, cancel := context.WithCancel(n.ctx)
	p := &putter{
		n: n, name: c.name, epoch: c.ch.Epoch(), copies: c.copies, at: n.cfg.Hub.Channel(n.cfg.Host, c.name), cancel: cancel,
		arrivals: ring.NewArrivals(c.ch, n.ringClock), wake: make(chan struct{}, 1), credit: hubCredit, loaded: loaded,
		asleep: n.clock.Suspended(),
	}
	p.user = c.copies.Join(p.rouse)
	p.arrivals.Watch(n.cfg.Source, func(int) { p.rouse() })
	n.work.Go(func() { p.run(ctx) })
	return p
}

// end stops the putter. Nothing reads the channel any more when it returns. Needs p.mu.
func (p *putter) end() {
	p.ended = true
	p.cancel()
	p.arrivals.Stop()
	p.copies.Leave(p.user)
}

func (p *putter) rouse() { notify(p.wake) }

// run puts frames until ctx ends.
func (p *putter) run(ctx context.Context) {
	defer p.at.Close()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		f, again := p.next(ctx)
		if f != nil {
			p.put(ctx, f)
			continue
		}
		timer.Reset(max(again-p.n.now(), 0))
		select {
		case <-p.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// next waits until a frame would leave at once, and copies the newest one then.
func (p *putter) next(ctx context.Context) (f *hubFrame, again time.Duration) {
	size, again := p.due(p.n.now())
	if again > 0 {
		return nil, again
	}
	if err := p.at.Room(ctx, size); err != nil {
		return nil, p.unreached(err)
	}
	return p.load(p.n.now())
}

// hubFrame is a frame that is to be put now.
type hubFrame struct {
	*ring.Snapshot
	key      *hubKey
	captured time.Duration
	owed     bool
	passed   uint64 // newest frame that was passed over before its slot
}

// put seals f and has the hub store it. A frame that could not be put stays in the ring, where
// a newer one may take its place before the next try.
func (p *putter) put(ctx context.Context, f *hubFrame) {
	defer f.Release()
	if f.owed || p.named { // what was owed is not any more: the hub may bring it still
		p.nameNewest(f.Seq)
		p.named = f.owed
	}
	acked, err := p.send(ctx, f)
	p.left(f, err)
	if err != nil {
		return
	}
	seq := f.Seq
	p.n.work.Go(func() {
		select {
		case err := <-acked:
			p.acknowledged(seq, err)
		case <-ctx.Done():
		}
	})
}

// send seals f and has it leave. A frame that the hub would refuse for its size costs nothing: the limit
// stays what it is as long as the connection, and so the readers.
func (p *putter) send(ctx context.Context, f *hubFrame) (acked <-chan error, err error) {
	if p.giant > 0 && len(f.Data) >= p.giant {
		return nil, p.refusal
	}
	room := slices.Grow(p.sealed[:0], len(f.Data)+f.key.Overhead())
	p.sealed, err = f.key.Seal(room, seal.Frame{Epoch: p.epoch, Seq: f.Seq, Captured: f.captured, Owed: f.owed, Data: f.Data})
	if err != nil {
		return nil, err
	}
	acked, err = p.at.Put(ctx, p.sealed)
	if errors.Is(err, ErrHubTooLarge) {
		p.giant, p.refusal, p.sealed = len(f.Data), err, nil
	}
	return acked, err
}

// left accounts for a frame that is on its way to the hub, or could not be sent there.
func (p *putter) left(f *hubFrame, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.n.now()
	if f.key == p.key {
		p.used = f.key.Last()
	}
	if errors.Is(err, ErrHubTooLarge) {
		p.pass(f.Seq, f.passed, &p.count.refused)
		p.trouble = fmt.Errorf("%s: %w; or have its publisher put smaller frames%.0w", p.name, err, errTooMuch)
		p.credit, p.again = p.credit+1, false
		return
	}
	if err != nil {
		p.untaken(err, now)
		p.credit++
		return
	}
	if f.Seq > p.loaded {
		p.pass(f.Seq, f.passed, &p.count.sent)
		p.puts.add(f.Seq, p.count.sent)
	}
	p.again = f.key != p.key && !p.command // nobody has that key any more
	p.size = len(f.Data)
	p.free = max(p.free, now) + p.interval()
}

// unreached records that the hub cannot be reached, and returns when to try again.
func (p *putter) unreached(err error) (again time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.untaken(err, p.n.now())
}

// untaken needs p.mu.
func (p *putter) untaken(err error, now time.Duration) (again time.Duration) {
	p.trouble, p.retry = fmt.Errorf("%s: the hub does not take it: %w", p.name, err), now+hubRetry
	return p.retry
}

// acknowledged takes the hub's word on frame seq. The newest frame is put once more if it may
// not be there.
func (p *putter) acknowledged(seq uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.credit++
	switch {
	case err == nil:
		p.trouble = nil
	case seq == p.loaded && !p.command:
		p.again, p.repeat = true, p.n.now()+hubRetry
		p.trouble = fmt.Errorf("%s: the hub does not acknowledge it: %w", p.name, err)
	}
	p.rouse()
}

// pass settles what frame seq means for those before it, and counts it. Needs p.mu.
func (p *putter) pass(seq, passed uint64, as *uint64) {
	if seq <= p.loaded {
		return
	}
	skipped := seq - p.loaded - 1
	limited := min(max(passed, p.loaded)-p.loaded, skipped)
	p.count.limited += limited
	p.count.passed += skipped - limited
	*as++
	p.loaded, p.fate = seq, as
}

// nameNewest tells the readers over control that frame seq is the newest, since they believe
// nobody else that a frame past its budget is.
func (p *putter) nameNewest(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.readers {
		r.link.send(wire.Newest{Sub: r.id, Seq: seq})
	}
}

func (r *hubReader) owe(have uint64) {
	p := r.putter
	p.mu.Lock()
	defer p.mu.Unlock()
	if have < p.loaded && !p.command {
		p.again = true
		p.rouse()
	}
}

// over reports that a frame captured then is past the budget of every reader. Needs p.mu.
func (p *putter) over(captured, now time.Duration) bool {
	return !slices.ContainsFunc(p.readers, func(r *hubReader) bool {
		return !pastBudget(r.granted, captured, now)
	})
}

// slot is the least time between two frames by the max_rate of the readers. Needs p.mu.
func (p *putter) slot() time.Duration {
	least := time.Duration(-1)
	for _, r := range p.readers {
		if every := r.granted.MaxRate.Interval(); least < 0 || every < least {
			least = every
		}
	}
	return max(least, 0)
}

// carriesCommands needs p.mu.
func (p *putter) carriesCommands() bool {
	return slices.ContainsFunc(p.readers, func(r *hubReader) bool { return r.granted.Class == rule.Command })
}
