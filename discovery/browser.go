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

// Browser keeps one table of the peers on the network.
type Browser struct {
	cfg Config
	log *slog.Logger
	now bool // ask at once, without the random delay of a daemon

	mu          sync.Mutex
	host        string
	sooner      chan struct{} // closed by LookUp
	memberships [2][]Probe    // by index of the family
}

// NewBrowser checks what browsing uses of cfg and reports every problem at once.
func NewBrowser(cfg Config) (*Browser, error) {
	if err := cfg.checkBrowse(); err != nil {
		return nil, err
	}
	return &Browser{cfg: cfg, log: cfg.logger(), host: cfg.Self.Host, sooner: make(chan struct{})}, nil
}

// LookUp resolves the names of the listed peers now, not only every half minute. Call it when a peer is not at its
// address. It does not wait. Safe for concurrent use.
func (b *Browser) LookUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.sooner)
	b.sooner = make(chan struct{})
}

func (b *Browser) lookedUp() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sooner
}

// Run browses until ctx ends and then returns nil within a second. It calls f with the whole table when the table has
// changed, at most ten times a second, one call at a time; the table does not change while f runs. f may keep the slice,
// but must not change its elements. Run waits for networks that are missing or come and go. Call it once.
func (b *Browser) Run(ctx context.Context, f func([]Peer)) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.browse(ctx, f)
	}()
	<-ctx.Done()
	awaitEnd(ended)
	return nil
}

// endTime is how long awaitEnd waits at most. When a process joins or closes a multicast socket or lists interfaces, the
// kernel takes one lock of the whole machine. That lock may be held for a second while networks of containers come and
// go.
const endTime = 500 * time.Millisecond

// awaitEnd waits until a goroutine has ended. After endTime it returns although the goroutine still waits for the kernel.
func awaitEnd(ended <-chan struct{}) {
	select {
	case <-ended:
	case <-time.After(endTime):
	}
}

func (b *Browser) browse(ctx context.Context, f func([]Peer)) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{Browser: b, groups: [2]sockets{{family: ip4}, {family: ip6}}, table: newTable(b.cfg.Self), events: make(chan event, 64), told: f, began: time.Now()}
	w.dropped.Period, w.renamed.Period = warnEvery, warnEvery
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
			w.changed = w.learn(time.Now(), e) || w.changed
		case <-timer.C:
		}
		now := time.Now()
		w.expire(now)
		w.lookAround(ctx, now)
		w.ask(now)
		if w.changed && now.Sub(w.toldAt) >= tellEvery && ctx.Err() == nil {
			w.changed, w.toldAt = false, now
			w.tell(now)
		}
		timer.Reset(w.untilNext(now))
	}
}

// event is a message of a helper to Run's goroutine. One field is set.
type event struct {
	packet *heardPacket
	closed *socket // a socket that cannot be read any more
	static *Static
	addrs  []netip.AddrPort // of static
	domain *Domain
	hosts  []record // of domain
}

// heardPacket is a parsed packet and where it came from.
type heardPacket struct {
	packet
	arrival
}

const (
	// tellEvery is the shortest time between two calls of Run's f. Without it, a host that announces often would
	// cause the whole table to be read for every packet.
	tellEvery = 100 * time.Millisecond
	// warnEvery is the shortest time between two log lines that any host on the network can cause.
	warnEvery = 10 * time.Minute
)

// watch is the state that Run's goroutine owns.
type watch struct {
	*Browser
	table   *table
	events  chan event
	told    func([]Peer)
	toldAt  time.Time
	changed bool      // the table has changed since f was last called
	next    time.Time // when a claim in the table may expire
	helpers sync.WaitGroup

	links   []link // interfaces that discovery uses
	around  []link // all interfaces of this host
	looked  time.Time
	groups  [2]sockets    // by index of the family
	trouble trouble       // the last trouble that was logged
	began   time.Time     // the clock of the limits
	dropped logline.Limit // claims that were dropped from a full table
	renamed logline.Limit // how often another node announced our name

	questions questions
}

func (w *watch) start(ctx context.Context) {
	w.questions = newQuestions(time.Now())
	if !w.now {
		w.questions.next = w.questions.next.Add(20*time.Millisecond + rand.N(100*time.Millisecond)) // RFC 6762, 5.2
	}
	for _, s := range w.cfg.Static {
		if w.table.resolved(s, nil) {
			w.helpers.Go(func() {
				s.follow(ctx, w.log, w.lookedUp, func(addrs []netip.AddrPort) { w.send(ctx, event{static: &s, addrs: addrs}) })
			})
		}
	}
	for _, d := range w.cfg.Domains {
		w.helpers.Go(func() {
			d.follow(ctx, nameServers{conf: "/etc/resolv.conf"}.question, w.log, func(hosts []record) { w.send(ctx, event{domain: &d, hosts: hosts}) })
		})
	}
}

func (w *watch) wait() {
	for i := range w.groups {
		w.groups[i].close()
	}
	w.helpers.Wait()
}

// send sends an event to Run's goroutine, or drops it when ctx has ended.
func (w *watch) send(ctx context.Context, e event) {
	select {
	case w.events <- e:
	case <-ctx.Done():
	}
}

func (w *watch) learn(now time.Time, e event) bool {
	switch {
	case e.packet != nil:
		return w.learnPacket(now, *e.packet)
	case e.static != nil:
		return w.table.resolved(*e.static, e.addrs)
	case e.domain != nil:
		return w.learnZone(*e.domain, e.hosts)
	case e.closed != nil:
		w.sockets(e.closed.family).drop(e.closed)
	}
	return false
}

func (w *watch) expire(now time.Time) {
	if now.Before(w.next) {
		return
	}
	w.changed = w.table.expire(now) || w.changed
	w.next = now.Add(lookAround)
	if next := w.table.next(); !next.IsZero() && next.Before(w.next) {
		w.next = next
	}
}

// tell calls f with the table, and logs when another node announces our name.
func (w *watch) tell(now time.Time) {
	host := w.table.selfHost()
	w.mu.Lock()
	before := w.host
	w.host = host
	w.mu.Unlock()
	if host != before && host != w.cfg.Self.Host {
		if _, due := w.renamed.Cause(now.Sub(w.began)); due {
			w.log.Warn("another node announces this host's name: hosts linked with both show this one under a longer name; start one of the two with --name",
				"host", w.cfg.Self.Host, "seen_as", host)
		}
	}
	w.told(w.table.peers())
}

func (w *watch) untilNext(now time.Time) time.Duration {
	next := now.Add(lookAround)
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	sooner(w.next)
	sooner(w.questions.next)
	if w.changed {
		sooner(w.toldAt.Add(tellEvery))
	}
	return max(0, next.Sub(now))
}
