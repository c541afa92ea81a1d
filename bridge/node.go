package bridge

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"achbridge/bridge/achdway"
	"achbridge/bridge/hubway"
	"achbridge/bridge/layouts"
	"achbridge/bridge/ledger"
	"achbridge/bridge/locals"
	"achbridge/bridge/logline"
	"achbridge/bridge/mirror"
	"achbridge/bridge/pacing"
	"achbridge/bridge/peers"
	"achbridge/bridge/ring"
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
	cfg       Config
	log       *slog.Logger
	start     time.Time
	clock     mirror.Clock
	ringClock ring.Clock
	run       uint64 // tells one life of this node from the next
	do        chan func()
	ended     chan struct{}

	// The rest belongs to the goroutine of Run.
	work     sync.WaitGroup
	ctx      context.Context
	locals   *locals.Table
	warnings warner // of trouble that users of this host have caused
	peers    *peers.Table
	links    map[trust.NodeID]*link
	spares   map[spareKey]*link // second links (link_silence.go); each of their nodes has a link too
	asked    []rule.Mirror      // wishes of the API; those of the configuration are in cfg
	pushes   pushTable
	mirrors  map[string]*binding
	ending   map[string]bool // names of ended mirrors that have not yet closed their files
	made     uint32          // number of mirrors made in this run
	books    map[bookKey]*ledger.Book
	copying  ring.Resources // of copies of local channels' frames
	space    *mirror.Space
	layouts  layouts.Cache

	pins      map[string]pinned         // the node that last had a host name, by that name
	machines  map[string]Machine        // the machines to which commands and pushes went last, by host name
	copies    map[trust.NodeID]copied   // machines that have the node id of a peer too, by that id
	copied    copied                    // a machine that has the node id of this host too
	former    map[trust.NodeID][]former // runs of a peer that another run has replaced
	mirrorsOf map[string]int            // number of mirrors by host
	newcomers logline.Limit             // lines in the log about sessions that are turned away

	publishers *hubway.Publishers // of channels at the hub
	achd       *achdway.Hosts     // that have achd alone

	loads loadTests

	events status.Journal
	peeks  []*peek
	peeked int // number of peeks in this run
	wall   wallClock
	asleep time.Duration // total time of suspension at the last look
	slept  time.Duration // time of suspension since the last look at the wall clock

	waited *float64 // as status.Report.ProcessorWait

	changed bool             // reconcile has to run: something that it uses has changed
	rested  <-chan time.Time // when the node may reconcile again; nil: it may now
	applied []chan struct{}  // closed after the next reconcile
	changes int              // functions and ticks of this turn that may have changed something
	next    chan struct{}    // closed after the next turn with changes; nil: nobody waits for it
}

// tick is how often a node checks for changes without an event: files that were damaged in
// place, hung broadcasts, refused mirrors.
const tick = 250 * time.Millisecond

const (
	// helloTimeout is how long a peer may take to send its Hello.
	helloTimeout = 5 * time.Second
	// spareTime is how long a spare waits to become the link: the peer may have it on trial for peers.TrialTime.
	spareTime = peers.TrialTime + helloTimeout
)

// New checks cfg and returns a node that Run starts. It reports every problem
// of cfg at once.
func New(cfg Config) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.settle()
	if cfg.control == nil {
		cfg.control = pacing.NewPacer
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{
		cfg:     cfg,
		log:     cfg.Log,
		start:   wallTime(),
		run:     rand.Uint64(),
		do:      make(chan func(), 64),
		ended:   make(chan struct{}),
		links:   make(map[trust.NodeID]*link),
		spares:  make(map[spareKey]*link),
		mirrors: make(map[string]*binding),
		ending:  make(map[string]bool),

		pins:      make(map[string]pinned),
		machines:  make(map[string]Machine),
		copies:    make(map[trust.NodeID]copied),
		former:    make(map[trust.NodeID][]former),
		mirrorsOf: make(map[string]int),
		newcomers: logline.Limit{Period: logPeriod},

		books: make(map[bookKey]*ledger.Book),
		space: mirror.NewSpace(cfg.Dir),
	}
	n.ringClock = ring.Clock{Now: n.now, Looked: func() time.Duration { return n.cfg.Source.Looked().Sub(n.start) }}
	n.clock = mirror.Clock{Now: n.now, At: status.Monotonic(n.start), Suspended: cfg.suspended, Woke: n.woke}
	if n.clock.Suspended == nil {
		n.clock.Suspended = localach.Suspended
	}
	maps.Copy(n.machines, cfg.Machines)
	n.asleep = n.clock.Suspended()
	n.copying = ring.Resources{
		Compressor: ring.NewCompressor(), Budget: ring.NewBudget(ring.DefaultBudget), Large: ring.NewSemaphore(),
		Spawn: ring.NewWorkers(&n.work).Start, Now: n.now,
	}
	n.events.Log = n.log
	n.warnings = n.newWarner()
	n.locals = n.newLocals()
	n.pushes = pushTable{channels: n.locals, isMirror: n.isMirror, changed: func() { n.changed = true }}
	n.pushes.plan(cfg.Pushes)
	return n, nil
}

// Run works until ctx ends; then it says goodbye to every peer and returns
// once everything it started has ended, in less than a second. Mirrors stay as
// files. A missing peer or channel never ends it. Call it once.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.ctx = ctx
	n.peers = peers.New(peers.Config{Node: n.cfg.Node.String(), Listen: n.cfg.Endpoint.LocalAddrs(), Cause: causeOf})
	n.publishers = hubway.NewPublishers(ctx, hubway.Config{
		Hub: n.cfg.Hub, Host: n.cfg.Host, Node: n.cfg.Node, Signer: n.cfg.Endpoint.Signer, Source: n.cfg.Source, Clock: n.ringClock,
		Suspended: n.clock.Suspended, Spawn: n.work.Go, Freed: n.admitOthers,
	})
	n.achd = n.newAchdHosts(ctx)
	n.changed = true // what needs no link begins at once
	n.sweepPeeks()
	n.work.Go(func() { n.accept(ctx) })
	n.work.Go(func() { n.watch(ctx) })
	if n.cfg.Hub != nil {
		n.work.Go(func() { n.acceptHub(ctx) })
	}

	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case f := <-n.do:
			n.changes++
			f()
			n.drain()
		case <-ticker.C:
			n.changes++
			n.look()
		case <-n.rested:
			n.rested = nil
		case <-ctx.Done():
		}
		if n.changed && n.rested == nil {
			n.changed = false
			n.changes++
			began := n.now()
			n.reconcile()
			if pause := rest(n.now() - began); pause > 0 {
				n.rested = time.After(pause)
			}
		}
		n.wakeAwaiting()
	}
	n.leave(cancel)
	return nil
}

// drain runs the functions that wait in the queue, so that one reconcile serves many changes.
// Functions that arrive meanwhile wait: otherwise a steady stream of them would stop the
// ticks.
func (n *Node) drain() {
	for range len(n.do) {
		n.changes++
		(<-n.do)()
	}
}

// leave ends every link with a Bye and waits for all goroutines.
func (n *Node) leave(cancel context.CancelFunc) {
	n.cfg.Endpoint.Leave() // a peer that has heard the Bye may dial again before the sockets are closed
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
		m.Close(func() {}) // first, since this ends goroutines that wait for a mirror's lock
	}
	n.work.Wait()
	for _, l := range n.links {
		l.exports.dropAll()
	}
	n.locals.Close()
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

// change hands f to the node's goroutine and waits until f has run. Unless f failed, it also
// waits for the next reconcile. It does not wait for peers. The error is f's, or errEnded.
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

// wallTime is the time of day, for people. Ages and time-outs do not use it, since it may be
// set.
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

// look runs at every tick.
func (n *Node) look() {
	n.lookAtProcessor()
	n.lookAtClocks()
	n.changed = n.changed || n.peers.Waits()
	n.locals.Check(n.localChanged)
	for _, l := range n.links {
		n.changed = n.changed || l.advertised.isPartial
		if !l.greeted && n.now() > l.up+helloTimeout {
			n.linkDown(l, unwelcome(l.host+" does not say Hello"))
			continue
		}
		if n.narrowed(l) {
			continue
		}
		n.listen(l)
		n.seekBetter(l)
	}
	for _, l := range n.spares {
		n.challenge(l)
		if n.spares[l.spareKey()] == l && n.now() > l.up+spareTime {
			n.dropSpare(l, unwelcome("there is a link already"))
		}
	}
	n.lookAtHub()
	for _, m := range n.mirrors {
		n.mirrorLook(m)
	}
	for _, l := range n.links {
		n.tellLedger(l)
		n.tellRevocations(l)
		n.seekOmitted(l)
		l.layouts.Send(time.Now())
	}
}

// reconcile makes what runs agree with what is wanted.
func (n *Node) reconcile() {
	n.dialWanted()
	for _, l := range n.links {
		n.offerPushes(l)
		n.sendCatalog(l)
	}
	n.pushes.publish(n.achd)
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
