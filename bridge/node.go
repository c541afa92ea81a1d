package bridge

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"slices"
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
	wishes  []Mirror
	pushes  []*push
	mirrors map[string]*mirror
	books   map[bookKey]*book
	packing *compressor // of large frames, which links share
	packers jobs        // that do it
	space   *space
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
	if cfg.Export == nil {
		cfg.Export = []string{"*"}
	}
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
		wishes:  slices.Clone(cfg.Mirrors),
		mirrors: make(map[string]*mirror),
		books:   make(map[bookKey]*book),
		packing: newCompressor(),
		space:   newSpace(cfg.Dir),
	}
	n.packers.group = &n.work
	for _, p := range cfg.Pushes {
		n.pushes = append(n.pushes, &push{Push: p})
	}
	return n, nil
}

// Run works until ctx ends; then it says goodbye to every peer and returns
// once everything it started has ended, in less than a second. Mirrors stay as
// files. A missing peer or channel never ends it. Call it once.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.ctx = ctx
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
		case <-ctx.Done():
		}
		if n.changed {
			n.changed = false
			n.reconcile()
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

// Mirror adds a wish. Channels that match it are mirrored as soon as a peer
// offers them. One for the same host, channel and name takes the place of the
// former: running mirrors get its QoS without a gap.
func (n *Node) Mirror(m Mirror) error {
	if err := m.check(); err != nil {
		return err
	}
	n.call(func() {
		n.changed = true
		if i := slices.IndexFunc(n.wishes, m.same); i >= 0 {
			n.wishes[i] = m
			return
		}
		n.wishes = append(n.wishes, m)
	})
	return nil
}

// Fate says what becomes of a mirror's file.
type Fate int

// What Unmirror does with the mirrors' files.
const (
	Keep Fate = iota
	Remove
)

// Unmirror takes a wish back. Its mirrors stop; their files stay, or go when
// fate is Remove.
func (n *Node) Unmirror(m Mirror, fate Fate) error {
	err := fmt.Errorf("unmirror %s/%s: the daemon has ended", m.Host, m.Channel)
	n.call(func() { err = n.unmirror(m, fate) })
	return err
}

func (n *Node) unmirror(m Mirror, fate Fate) error {
	n.changed = true // a wish that stood behind this one may come into its own
	is := func(w Mirror) bool { return w.Host == m.Host && w.Channel == m.Channel }
	if i := slices.IndexFunc(n.wishes, is); i >= 0 {
		n.wishes = slices.Delete(n.wishes, i, i+1)
		return n.dropUnwanted(fate)
	}
	for _, l := range n.links {
		if i := slices.IndexFunc(l.pushed, is); i >= 0 {
			l.pushed = slices.Delete(l.pushed, i, i+1)
			return n.dropUnwanted(fate)
		}
	}
	for _, w := range n.wishes {
		if w.covers(m.Host, m.Channel) {
			return fmt.Errorf("unmirror %s/%s: it is mirrored because of %s/%s; take that back instead", m.Host, m.Channel, w.Host, w.Channel)
		}
	}
	return fmt.Errorf("unmirror %s/%s: %w: it is not mirrored; `achbridge status` lists the mirrors", m.Host, m.Channel, fs.ErrNotExist)
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
