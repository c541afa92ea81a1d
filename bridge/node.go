package bridge

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/trust"
	"achbridge/localach"
)

// Node is the bridge of one host: it offers the local channels to its peers
// and keeps mirrors of theirs. All its tables belong to the goroutine of Run;
// other goroutines hand it functions. Methods are safe for concurrent use and
// work while Run does; afterwards they do nothing.
type Node struct {
	cfg   Config
	log   *slog.Logger
	start time.Time
	clock mirror.Clock
	run   uint64 // tells one life of this node from the next
	do    chan func()
	ended chan struct{}

	// The rest belongs to the goroutine of Run.
	work     sync.WaitGroup
	ctx      context.Context
	locals   map[string]*local
	opened   int            // of those, the ones that are
	openedBy map[uint32]int // by the owner of the file
	mayOpen  int            // of those
	gripes   complaints     // about them
	peers    map[string]*peer
	links    map[trust.NodeID]*link
	spares   map[trust.NodeID]*link // see second_link.go; where there is one, there is a link
	asked    []rule.Mirror          // wishes that were asked for while it ran; those of the configuration are in cfg
	pushes   []*push
	mirrors  map[string]*binding
	ending   map[string]bool // mirrors that are none any more, and have not let go of their files yet
	made     uint32          // mirrors, in this run
	books    map[bookKey]*ledger.Book
	packing  *compressor // of large frames, which links share
	packers  jobs        // that do it, and copy them
	huge     lane        // for the largest
	frames   *memory     // of copies of local channels' frames
	space    *mirror.Space

	pins      map[string]trust.NodeID // which node a host was last, by name
	mirrorsOf map[string]int          // how many of mirrors are of which host
	dials     claimDials              // the budget of dials to peers that are only announced
	newcomers allowance               // lines in the log about sessions that are turned away
	turned    int                     // of those since the last line

	events status.Journal
	peeks  []*peek
	peeked int // in this run
	wall   wallClock
	asleep time.Duration // for how long the host had been suspended in all, at the last look
	slept  time.Duration // for how long it was since the wall clock was looked at

	changed bool             // something that reconcile looks at is not as it was
	rested  <-chan time.Time // when the node may reconcile again; nil: it may now
	applied []chan struct{}  // closed after the next reconcile
}

// tick is how often a node looks after what no event tells: files that were
// damaged in place, hung broadcasts, refused mirrors.
const tick = 250 * time.Millisecond

// helloTimeout is how long a peer may take to say who it is.
const helloTimeout = 5 * time.Second

// New checks cfg and returns a node that Run starts. It reports every problem
// of cfg at once.
func New(cfg Config) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.settle()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{
		cfg:      cfg,
		log:      cfg.Log,
		start:    wallTime(),
		run:      rand.Uint64(),
		do:       make(chan func(), 64),
		ended:    make(chan struct{}),
		locals:   make(map[string]*local),
		openedBy: make(map[uint32]int),
		mayOpen:  maxLocals,
		gripes:   complaints{allowance: allowance{burst: logBurst, every: logPeriod}},
		peers:    make(map[string]*peer),
		links:    make(map[trust.NodeID]*link),
		spares:   make(map[trust.NodeID]*link),
		mirrors:  make(map[string]*binding),
		ending:   make(map[string]bool),

		pins:      make(map[string]trust.NodeID),
		mirrorsOf: make(map[string]int),
		dials:     newClaimDials(),
		newcomers: allowance{burst: 1, every: logPeriod},

		books:   make(map[bookKey]*ledger.Book),
		packing: newCompressor(),
		huge:    newLane(),
		frames:  newMemory(maxFrames),
		space:   mirror.NewSpace(cfg.Dir),
	}
	n.clock = mirror.Clock{Now: n.now, At: status.Monotonic(n.start), Suspended: cfg.suspended, Woke: n.woke}
	if n.clock.Suspended == nil {
		n.clock.Suspended = localach.Suspended
	}
	n.asleep = n.clock.Suspended()
	n.packers.group = &n.work
	n.events.Log = n.log
	n.planPushes()
	return n, nil
}

// Run works until ctx ends; then it says goodbye to every peer and returns
// once everything it started has ended, in less than a second. Mirrors stay as
// files. A missing peer or channel never ends it. Call it once.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.ctx = ctx
	n.sweepPeeks()
	n.work.Go(func() { n.accept(ctx) })
	n.work.Go(func() { n.watch(ctx) })

	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case f := <-n.do:
			f()
			n.drain()
		case <-ticker.C:
			n.look()
		case <-n.rested:
			n.rested = nil
		case <-ctx.Done():
		}
		if n.changed && n.rested == nil {
			n.changed = false
			began := n.now()
			n.reconcile()
			if pause := rest(n.now() - began); pause > 0 {
				n.rested = time.After(pause)
			}
		}
	}
	n.leave(cancel)
	return nil
}

// drain runs what has queued up, so that one reconcile serves many changes. What comes
// meanwhile has to wait: else whoever brings more about all the time stops the ticks.
func (n *Node) drain() {
	for range len(n.do) {
		(<-n.do)()
	}
}

// leave ends every link with a Bye and waits for all goroutines.
func (n *Node) leave(cancel context.CancelFunc) {
	n.cfg.Endpoint.Leave() // who has heard the Bye dials again before the sockets are closed
	var byes sync.WaitGroup
	for _, l := range n.links {
		byes.Go(func() {
			l.bye("the daemon is leaving")
			l.cancel(nil)
		})
	}
	for _, l := range n.spares {
		l.cancel(nil)
	}
	byes.Wait()
	cancel()
	close(n.ended)
	for _, m := range n.mirrors {
		if m.Temporary {
			_ = m.Remove() // it is gone already, or goes now
		}
		m.Close(func() {}) // first: what waits for a mirror's lock ends by this
	}
	n.work.Wait()
	for _, l := range n.links {
		l.dropAllExports()
	}
	for _, l := range n.locals {
		l.close()
	}
}

// post hands f to the node's goroutine.
func (n *Node) post(f func()) {
	select {
	case n.do <- f:
	case <-n.ended:
	}
}

// call hands f to the node's goroutine and waits until it has run; false means
// the node has ended and f did not run.
func (n *Node) call(f func()) bool {
	done := make(chan struct{})
	n.post(func() { f(); close(done) })
	select {
	case <-done:
		return true
	case <-n.ended:
		return false
	}
}

var errEnded = errors.New("the daemon has ended")

// change hands f to the node's goroutine and waits until f has run and, unless it failed,
// until what runs here agrees with it. It does not wait for peers. The error is f's, or
// errEnded.
func (n *Node) change(f func() error) (err error) {
	done := make(chan struct{})
	if !n.call(func() {
		if err = f(); err != nil {
			close(done)
			return
		}
		n.changed = true
		n.applied = append(n.applied, done)
	}) {
		return errEnded
	}
	select {
	case <-done:
		return err
	case <-n.ended:
		return errEnded
	}
}

// now is the node's clock: time since its start, never stepped.
func (n *Node) now() time.Duration { return time.Since(n.start) }

// wallTime is the time of day, which may be set. It is for people; nothing is counted by it.
func wallTime() time.Time { return time.Now() }

// accept takes the links that peers open.
func (n *Node) accept(ctx context.Context) {
	for {
		s, err := n.cfg.Endpoint.Accept(ctx)
		if err != nil {
			return
		}
		n.post(func() { n.linkUp(s) })
	}
}

// look is what the node does at every tick.
func (n *Node) look() {
	n.lookAtClocks()
	n.changed = n.changed || n.dials.waiting
	n.lookAtLocals()
	for _, l := range n.links {
		n.changed = n.changed || l.behind
		if !l.greeted && n.now() > l.up+helloTimeout {
			n.linkDown(l, unwelcome(l.host+" does not say Hello"))
			continue
		}
		if n.narrowed(l) {
			continue
		}
		n.listen(l)
	}
	for _, l := range n.spares {
		n.challenge(l)
		if n.spares[l.peer] == l && n.now() > l.up+helloTimeout {
			n.dropSpare(l, unwelcome("there is a link already"))
		}
	}
	n.forgetProved()
	for _, m := range n.mirrors {
		n.mirrorLook(m)
	}
	for _, l := range n.links {
		n.tellLedger(l)
		n.tellRevocations(l)
		n.seekOmitted(l)
	}
}

// reconcile makes what runs agree with what is wanted.
func (n *Node) reconcile() {
	n.dialWanted()
	for _, l := range n.links {
		n.offerPushes(l)
		n.sendCatalog(l)
	}
	n.bindMirrors()
	for _, done := range n.applied {
		close(done)
	}
	n.applied = nil
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
