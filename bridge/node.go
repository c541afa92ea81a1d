package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"achbridge/bridge/achdway"
	"achbridge/bridge/hubway"
	"achbridge/bridge/layouts"
	"achbridge/bridge/locals"
	"achbridge/bridge/logline"
	"achbridge/bridge/mirror"
	"achbridge/bridge/pacing"
	"achbridge/bridge/peers"
	"achbridge/bridge/status"
	"achbridge/bridge/trust"
)

// Node is the bridge of one host: it offers the local channels to its peers and keeps mirrors of
// theirs. All its tables belong to the goroutine of Run; other goroutines hand it functions.
// Methods are safe for concurrent use. They work while Run runs; after that they do nothing.
type Node struct {
	cfg    Config
	run    uint64 // incarnation of the node, a random number
	clocks clocks
	events status.Journal
	loop   loop

	// The fields below belong to the goroutine of loop.
	peers    *peers.Table
	links    map[trust.NodeID]*link
	spares   map[standbyKey]*link // standby links (link_silence.go); each of their nodes has a link too
	machines machineTable

	requests mirrorRequests
	mirrors  mirrorTable
	layouts  layouts.Cache

	locals *locals.Table
	pushes pushTable
	locks  lockTable
	shared sharedExports

	achd  *achdway.Hosts // hosts that have achd and no achbridge
	loads loadTests

	unmarkedUntil map[trust.NodeID]time.Duration // node time from which packets to a peer may have a DSCP again

	warnings          warner        // limits warnings about problems that users of this host have caused
	linkLimitWarnings logline.Limit // limits warnings about sessions that exceed the limit of links
	cpuWait           *float64      // share of time spent waiting for a CPU, as status.Report.CPUWait; nil means unknown
}

const (
	// helloTimeout is the time within which a peer must send Hello.
	helloTimeout = 5 * time.Second
	// standbyTimeout is the time within which a spare must become the link. The peer may have the spare
	// on trial for peers.TrialTime.
	standbyTimeout = peers.TrialTime + helloTimeout
)

// New checks cfg and returns a node, which does nothing until Run. The error lists every problem
// of cfg.
func New(cfg Config) (*Node, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.settle()
	if cfg.testing.control == nil {
		cfg.testing.control = pacing.NewPacer
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{
		cfg:    cfg,
		run:    rand.Uint64(),
		loop:   newLoop(),
		links:  make(map[trust.NodeID]*link),
		spares: make(map[standbyKey]*link),

		unmarkedUntil: make(map[trust.NodeID]time.Duration),

		linkLimitWarnings: logline.Limit{Period: logPeriod},
	}
	n.clocks = newClocks(&n.cfg, func() { n.loop.tryPost(n.checkSuspend) })
	n.machines = newMachineTable(&cfg, n.now, &n.events)
	n.shared = newSharedExports(&n.loop.work, n.now)
	n.events.Log = n.cfg.Log
	n.warnings = n.newWarner()
	n.locals = n.newLocals()
	n.requests = mirrorRequests{host: cfg.Host, rules: cfg.Mirrors, muxRules: cfg.Muxes, pushed: n.pushed, namePrefix: fmt.Sprintf("%s%.8s-", temporaryPrefix, cfg.Node)}
	n.mirrors = newMirrorTable(mirror.Config{
		Dir: cfg.Dir, Kernel: cfg.KernelMirrors, Space: mirror.NewSpace(cfg.Dir), Log: n.cfg.Log, Events: &n.events, Spawn: n.loop.work.Go, Clock: n.clocks.mirror,
	}, cfg.Adopt, n.requests.namePrefix)
	n.pushes = pushTable{channels: n.locals, isMirror: n.isMirror, changed: n.loop.changed}
	n.pushes.plan(cfg.Pushes)
	n.locks = n.newLockTable()
	return n, nil
}

// Run works until ctx ends. Then it sends Bye to every peer, and returns in less than a second,
// when everything that it started has ended. Mirrors stay as files. A missing peer or channel
// never ends Run. Call it only once.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.loop.ctx = ctx
	n.peers = peers.New(peers.Config{Node: n.cfg.Node.String(), Listen: n.cfg.Endpoint.LocalAddrs(), Cause: causeOf})
	n.shared.publishers = hubway.NewPublishers(ctx, hubway.Config{
		Hub: n.cfg.Hub, Host: n.cfg.Host, Node: n.cfg.Node, Signer: n.cfg.Endpoint.Signer, Source: n.cfg.Source, Clock: n.clocks.ring,
		Suspended: n.clocks.mirror.Suspended, Spawn: n.loop.work.Go, Freed: n.admitOthers,
	})
	n.achd = n.newAchdHosts(ctx)
	n.loop.changed() // work that needs no link begins at once
	sweepTemporary(n.cfg.Dir, n.requests.namePrefix)
	n.loop.work.Go(func() { n.accept(ctx) })
	n.loop.work.Go(func() { n.watch(ctx, string(n.cfg.Dir), n.cfg.Source.Changes) })
	if n.cfg.Kernel != nil {
		n.loop.work.Go(func() { n.watch(ctx, "/dev", n.cfg.Kernel.Watch) })
	}
	n.loop.work.Go(func() { n.watchLocks(ctx) })
	if n.cfg.Hub != nil {
		n.loop.work.Go(func() { n.acceptHub(ctx) })
	}

	n.loop.run(ctx, n.isIdle, n.check, n.reconcile)
	n.leave(cancel)
	return nil
}

// leave ends every link with a Bye and waits for all goroutines.
func (n *Node) leave(cancel context.CancelFunc) {
	n.cfg.Endpoint.Leave() // a peer that has received Bye may dial again before the sockets are closed
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
	close(n.loop.done)
	for _, m := range n.mirrors.inClosingOrder() {
		if m.Temporary {
			_ = m.Remove() // removed already, or removed now
		}
		m.Close(func() {}) // before work.Wait, since Close ends goroutines that wait for a mirror's lock
	}
	n.loop.work.Wait()
	for _, l := range n.links {
		l.exports.dropAll()
	}
	n.locals.Close()
}

// Await calls done at once, and again after each turn of the node that may have changed state. It
// returns when done returns true, or when ctx or the node ends. done may call StatusNow, Channels
// and Wish, which change nothing.
func (n *Node) Await(ctx context.Context, done func() bool) { n.loop.await(ctx, done) }

// now returns the time since the node's start. Clock steps do not affect it.
func (n *Node) now() time.Duration { return n.clocks.mirror.Now() }

// wallTime returns the time of day, for display. Ages and timeouts do not use it, since it may be
// set.
func wallTime() time.Time { return time.Now() }

// accept turns the sessions that peers open into links.
func (n *Node) accept(ctx context.Context) {
	for {
		s, err := n.cfg.Endpoint.Accept(ctx)
		if err != nil {
			return
		}
		n.loop.post(func() { n.linkUp(s) })
	}
}

// isIdle reports whether this node has no links, standbys or mirrors, uses no hub, and has no peer to dial.
func (n *Node) isIdle() bool {
	return len(n.links)+len(n.spares)+len(n.mirrors.byName) == 0 && n.cfg.Hub == nil && !n.peers.Waits()
}

// check runs at every tick.
func (n *Node) check() {
	n.sampleCPUWait()
	n.checkClocks()
	if n.peers.Waits() {
		n.dialWanted()
	}
	n.locals.Check(n.localChanged)
	for _, l := range n.links {
		if l.catalog.sent.isPartial {
			n.loop.changed()
		}
		if !l.hello.isReceived && n.now() > l.lifecycle.upAt+helloTimeout {
			n.linkDown(l, unwelcome(l.host+" does not say Hello"))
			continue
		}
		if n.narrowed(l) {
			continue
		}
		n.listen(l)
		n.tryBetterRoute(l)
	}
	for _, l := range n.spares {
		n.challenge(l)
		if l.lifecycle.phase == linkStandby && n.now() > l.lifecycle.upAt+standbyTimeout {
			n.dropStandby(l, unwelcome("there is a link already"))
		}
	}
	n.checkHub()
	for _, m := range n.mirrors.byName {
		n.repairMirror(m)
	}
	n.forgetGone()
	n.passClocks()
	for _, l := range n.links {
		l.sendCounters(n.now(), n.cpuWait)
		l.sendRevocations(n.cfg.Endpoint)
		n.mark(l)
		l.requestOmitted()
		l.layouts.requests.Send(time.Now())
	}
}

// reconcile starts and ends links, pushes and mirrors according to the requests and the state of
// peers.
func (n *Node) reconcile() {
	n.checkSuspend() // before a catalog names a clock
	n.dialWanted()
	for _, l := range n.links {
		n.offerPushes(l)
		n.sendCatalog(l)
	}
	n.pushes.publish(n.achd)
	n.bindMirrors()
	n.bindMuxes()
}
