package discovery

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"achbridge/bridge/logline"
)

// Browser searches for peers continuously and keeps a table of them.
type Browser struct {
	cfg       Config
	log       *slog.Logger
	skipDelay bool // send the first query without the random delay of a daemon

	mu              sync.Mutex
	host            string
	lookUpRequested chan struct{} // closed by LookUp
	memberships     [2][]Probe    // indexed by family.index
}

// NewBrowser returns a Browser, or an error with all problems in the fields of cfg that it uses.
func NewBrowser(cfg Config) (*Browser, error) {
	if err := cfg.checkBrowse(); err != nil {
		return nil, err
	}
	return &Browser{cfg: cfg, log: cfg.logger(), host: cfg.Self.Host, lookUpRequested: make(chan struct{})}, nil
}

// LookUp makes Run resolve the names of listed peers now instead of at the next half minute. Call it if a peer does not
// answer at its address. It does not block. LookUp is safe for concurrent use.
func (b *Browser) LookUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.lookUpRequested)
	b.lookUpRequested = make(chan struct{})
}

func (b *Browser) lookUpRequests() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lookUpRequested
}

// Run browses until ctx ends and then returns nil within a second. When the table has changed it calls f with the whole
// table, at most ten times a second and not concurrently. f may keep the slice, but must not change its elements. Run
// handles interfaces that are added and removed, and waits while there is none. Call it once.
func (b *Browser) Run(ctx context.Context, f func([]Peer)) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		b.browse(ctx, f)
	}()
	<-ctx.Done()
	awaitStop(stopped)
	return nil
}

// stopTimeout is the longest time that awaitStop waits. The kernel takes a machine-wide lock to join or close a multicast
// socket and to list interfaces. While networks of containers are added and removed, that lock may be held for a second.
const stopTimeout = 500 * time.Millisecond

// awaitStop waits until stopped is closed, but not longer than stopTimeout. The goroutine may then still block in the kernel.
func awaitStop(stopped <-chan struct{}) {
	select {
	case <-stopped:
	case <-time.After(stopTimeout):
	}
}

func (b *Browser) browse(ctx context.Context, f func([]Peer)) {
	ctx, cancel := context.WithCancel(ctx)
	w := &browseState{
		Browser: b, groups: [2]sockets{{family: ip4}, {family: ip6}}, table: newTable(b.cfg.Self),
		events: make(chan event, 64), notify: f, startedAt: time.Now(),
	}
	w.droppedClaims.Period, w.nameConflicts.Period = warnEvery, warnEvery
	defer w.wait()
	defer cancel()
	w.start(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.events:
			w.tableChanged = w.learn(time.Now(), e) || w.tableChanged
		case <-timer.C:
		}
		now := time.Now()
		w.expire(now)
		w.updateInterfaces(ctx, now)
		w.sendQuery(now)
		if w.tableChanged && now.Sub(w.notifiedAt) >= notifyEvery && ctx.Err() == nil {
			w.tableChanged, w.notifiedAt = false, now
			w.notifyChange(now)
		}
		timer.Reset(w.untilNextStep(now))
	}
}

// event is a message from a helper goroutine to Run's goroutine: a packet, a failed socket, the addresses of a listed
// peer, or the hosts of a domain.
type event struct {
	packet       *receivedPacket
	failedSocket *socket // a socket that can no longer be read
	static       *Static
	addrs        []netip.AddrPort // addresses of static
	domain       *Domain
	hosts        []record // hosts of domain
}

// receivedPacket is a parsed packet with its addresses and interface.
type receivedPacket struct {
	packet
	arrival
}

const (
	// notifyEvery is the shortest time between two calls of Run's f. Without it, a flood of announcements would make Run
	// copy the whole table for each packet.
	notifyEvery = 100 * time.Millisecond
	// warnEvery is the shortest time between two equal log lines that packets of other hosts cause.
	warnEvery = 10 * time.Minute
)

// browseState is the state of a Browser that Run's goroutine owns.
type browseState struct {
	*Browser
	table        *table
	events       chan event
	notify       func([]Peer)
	notifiedAt   time.Time
	tableChanged bool      // the table has changed since the last call of notify
	nextExpiry   time.Time // when a claim in the table may expire
	helpers      sync.WaitGroup

	links              []link // interfaces that discovery uses
	allLinks           []link // all interfaces of this host
	interfacesListedAt time.Time
	groups             [2]sockets    // indexed by family.index
	problem            lastingError  // the last error that was logged
	startedAt          time.Time     // time zero of the limits below
	droppedClaims      logline.Limit // counts claims that were dropped from a full table
	nameConflicts      logline.Limit // counts how often another node took our name

	queries querySchedule
}

func (w *browseState) start(ctx context.Context) {
	w.queries = newQuerySchedule(time.Now())
	if !w.skipDelay {
		w.queries.nextAt = w.queries.nextAt.Add(20*time.Millisecond + rand.N(100*time.Millisecond)) // RFC 6762, 5.2
	}
	for _, s := range w.cfg.Static {
		if w.table.setStatic(s, nil) {
			w.helpers.Go(func() {
				s.follow(ctx, w.log, w.lookUpRequests, func(addrs []netip.AddrPort) { w.send(ctx, event{static: &s, addrs: addrs}) })
			})
		}
	}
	for _, d := range w.cfg.Domains {
		w.helpers.Go(func() {
			d.follow(ctx, nameServers{conf: "/etc/resolv.conf"}.query, w.log, func(hosts []record) { w.send(ctx, event{domain: &d, hosts: hosts}) })
		})
	}
}

func (w *browseState) wait() {
	for i := range w.groups {
		w.groups[i].close()
	}
	w.helpers.Wait()
}

// send sends an event to Run's goroutine, or drops it if ctx has ended.
func (w *browseState) send(ctx context.Context, e event) {
	select {
	case w.events <- e:
	case <-ctx.Done():
	}
}

func (w *browseState) learn(now time.Time, e event) bool {
	switch {
	case e.packet != nil:
		return w.learnPacket(now, *e.packet)
	case e.static != nil:
		return w.table.setStatic(*e.static, e.addrs)
	case e.domain != nil:
		return w.learnZone(*e.domain, e.hosts)
	case e.failedSocket != nil:
		w.sockets(e.failedSocket.family).drop(e.failedSocket)
	}
	return false
}

func (w *browseState) expire(now time.Time) {
	if now.Before(w.nextExpiry) {
		return
	}
	w.tableChanged = w.table.expire(now) || w.tableChanged
	w.nextExpiry = now.Add(listInterfacesEvery)
	if next := w.table.nextExpiry(); !next.IsZero() && next.Before(w.nextExpiry) {
		w.nextExpiry = next
	}
}

// notifyChange calls notify with the table. It logs a warning if another node announces our name.
func (w *browseState) notifyChange(now time.Time) {
	host := w.table.selfHost()
	w.mu.Lock()
	before := w.host
	w.host = host
	w.mu.Unlock()
	if host != before && host != w.cfg.Self.Host {
		if _, due := w.nameConflicts.Cause(now.Sub(w.startedAt)); due {
			w.log.Warn("another node announces this host's name, hosts linked with both show this one under a longer name, start one with another --name",
				"host", w.cfg.Self.Host, "seen_as", host)
		}
	}
	w.notify(w.table.peers())
}

func (w *browseState) untilNextStep(now time.Time) time.Duration {
	next := now.Add(listInterfacesEvery)
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	sooner(w.nextExpiry)
	sooner(w.queries.nextAt)
	if w.tableChanged {
		sooner(w.notifiedAt.Add(notifyEvery))
	}
	return max(0, next.Sub(now))
}
