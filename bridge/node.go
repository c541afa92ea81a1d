package bridge

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"achbridge/bridge/transport"
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
	clock hostClock
	run   uint64 // tells one life of this node from the next
	do    chan func()
	ended chan struct{}

	// The rest belongs to the goroutine of Run.
	work    sync.WaitGroup
	ctx     context.Context
	locals  map[string]*local
	peers   map[string]*peer
	links   map[transport.NodeID]*link
	spares  map[transport.NodeID]*link // see spare.go; where there is one, there is a link
	asked   []Mirror                   // wishes that were asked for while it ran; those of the configuration are in cfg
	pushes  []*push
	mirrors map[string]*mirror
	made    uint32 // mirrors, in this run
	books   map[bookKey]*book
	packing *compressor // of large frames, which links share
	packers jobs        // that do it
	space   *space

	pins      map[string]transport.NodeID // which node a host was last, by name
	mirrorsOf map[string]int              // how many of mirrors are of which host
	newcomers allowance                   // lines in the log about sessions that are turned away
	turned    int                         // of those since the last line

	events journal
	peeks  []*peek
	peeked int // in this run
	wall   wallClock

	changed bool // something that reconcile looks at is not as it was
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
		cfg:     cfg,
		log:     cfg.Log,
		start:   time.Now(),
		run:     rand.Uint64(),
		do:      make(chan func(), 64),
		ended:   make(chan struct{}),
		locals:  make(map[string]*local),
		peers:   make(map[string]*peer),
		links:   make(map[transport.NodeID]*link),
		spares:  make(map[transport.NodeID]*link),
		mirrors: make(map[string]*mirror),

		pins:      make(map[string]transport.NodeID),
		mirrorsOf: make(map[string]int),
		newcomers: allowance{burst: 1, every: logPeriod},

		books:   make(map[bookKey]*book),
		packing: newCompressor(),
		space:   newSpace(cfg.Dir),
	}
	n.clock = hostClock{n.start, Monotonic(n.start)}
	n.packers.group = &n.work
	n.events.log = n.log
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
	var rested <-chan time.Time // nil: it is
	for ctx.Err() == nil {
		select {
		case f := <-n.do:
			f()
			n.drain()
		case <-ticker.C:
			n.look()
		case <-rested:
			rested = nil
		case <-ctx.Done():
		}
		if n.changed && rested == nil {
			n.changed = false
			began := n.now()
			n.reconcile()
			if pause := rest(n.now() - began); pause > 0 {
				rested = time.After(pause)
			}
		}
	}
	n.leave(cancel)
	return nil
}

// drain runs what has queued up, so that one reconcile serves many changes.
func (n *Node) drain() {
	for {
		select {
		case f := <-n.do:
			f()
		default:
			return
		}
	}
}

// leave ends every link with a Bye and waits for all goroutines.
func (n *Node) leave(cancel context.CancelFunc) {
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
		if m.peek {
			_ = m.remove() // it is gone already, or goes now
		}
		m.close() // first: what waits for a mirror's lock ends by this
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

// now is the node's clock: time since its start, never stepped.
func (n *Node) now() time.Duration { return time.Since(n.start) }

// watch follows the channel directory.
func (n *Node) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := n.cfg.Source.Changes(ctx, func(e localach.Event) {
			n.post(func() { n.localChanged(e.Name) })
		})
		if ctx.Err() != nil {
			return
		}
		n.log.Error("watching channels failed, trying again", "dir", string(n.cfg.Dir), "err", err)
		pause(ctx, time.Second)
	}
}

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
	for name, l := range n.locals {
		if l.due(n.now()) {
			n.localChanged(name)
		}
	}
	for _, l := range n.links {
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
	for _, m := range n.mirrors {
		n.mirrorLook(m)
	}
	for _, l := range n.links {
		n.tellLedger(l)
		n.tellRevocations(l)
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
