package discovery

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// Browser keeps one table of who is out there.
type Browser struct {
	cfg Config
	log *slog.Logger
	now bool // ask at once, not after the random delay of a daemon

	mu     sync.Mutex
	host   string
	sooner chan struct{} // closed by LookUp
}

// NewBrowser checks all of cfg that browsing uses and reports every problem at once.
func NewBrowser(cfg Config) (*Browser, error) {
	if err := cfg.checkBrowse(); err != nil {
		return nil, err
	}
	return &Browser{cfg: cfg, log: cfg.logger(), host: cfg.Self.Host, sooner: make(chan struct{})}, nil
}

// LookUp has the names of the listed peers looked up now, not only every half minute: for when one of them is not
// where it was. Safe for concurrent use; it does not wait.
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

// SelfHost is the name others know this node by: Self.Host, or NAME-ab12 while a node with a lower id has the
// same name. Safe for concurrent use.
func (b *Browser) SelfHost() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.host
}

// Run browses until ctx ends and then returns nil within a second. f gets the whole table whenever it changes, from
// one goroutine at a time; while it runs, nothing is learnt. The slice is f's, what is in it must not be changed.
// Networks that are missing or come and go are waited for. Once per Browser.
func (b *Browser) Run(ctx context.Context, f func([]Peer)) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.browse(ctx, f)
	}()
	<-ctx.Done()
	await(ended)
	return nil
}

// endTime is how long the end of what uses sockets of a multicast group is waited for. The kernel closes them, has
// them join and lists interfaces under one lock of the whole machine, which others may hold for a second: when
// networks, or namespaces of containers, come and go.
const endTime = 500 * time.Millisecond

// await waits for an end, or leaves a goroutine to the kernel after endTime.
func await(ended <-chan struct{}) {
	select {
	case <-ended:
	case <-time.After(endTime):
	}
}

func (b *Browser) browse(ctx context.Context, f func([]Peer)) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{Browser: b, table: NewTable(b.cfg.Self), events: make(chan event, 64), told: f}
	defer w.wait()
	defer cancel()
	w.start(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var changed bool
		select {
		case <-ctx.Done():
			return
		case e := <-w.events:
			changed = w.learn(time.Now(), e)
		case <-timer.C:
		}
		now := time.Now()
		changed = w.table.Expire(now) || changed
		w.lookAround(ctx, now)
		w.ask(ctx, now)
		if changed && ctx.Err() == nil {
			w.tell()
		}
		timer.Reset(w.untilNext(now))
	}
}

// event is what Run's helpers tell its goroutine; one field is set.
type event struct {
	packet *heardPacket
	closed family // the socket of this family is closed
	hint   *record
	asked  bool // the round that was running is over
	static *Static
	addrs  []netip.AddrPort // of static
	domain *Domain
	hosts  []record // of domain
}

// heardPacket is a packet as it was parsed, and where it came from.
type heardPacket struct {
	packet
	family  family
	ifIndex int
	from    netip.Addr
}

// watch is what Run's goroutine owns.
type watch struct {
	*Browser
	table   *Table
	events  chan event
	told    func([]Peer)
	helpers sync.WaitGroup

	links   []link
	looked  time.Time
	sockets [2]*socket // ip4, ip6; nil: not open
	trouble string     // last one logged
	full    bool

	questions questions
	asking    bool // a round is under way
}

func (w *watch) start(ctx context.Context) {
	w.questions = newQuestions(time.Now())
	if !w.now {
		w.questions.next = w.questions.next.Add(20*time.Millisecond + rand.N(100*time.Millisecond)) // RFC 6762, 5.2
	}
	for _, s := range w.cfg.Static {
		if w.table.Resolved(s, nil) {
			w.helpers.Go(func() {
				s.follow(ctx, w.log, w.lookedUp, func(addrs []netip.AddrPort) { w.send(ctx, event{static: &s, addrs: addrs}) })
			})
		}
	}
	for _, d := range w.cfg.Domains {
		w.helpers.Go(func() {
			d.follow(ctx, nameServers{conf: "/etc/resolv.conf"}, w.log, func(hosts []record) { w.send(ctx, event{domain: &d, hosts: hosts}) })
		})
	}
}

func (w *watch) wait() {
	for _, s := range w.sockets {
		if s != nil {
			s.Close()
		}
	}
	w.helpers.Wait()
}

// send hands an event to Run's goroutine, or drops it when Run ends.
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
	case e.hint != nil:
		return w.seen(now, Sighting{Peer: e.hint.peer, Via: "round", Hearsay: true,
			Addrs: hearing{links: w.links}.addresses(*e.hint)})
	case e.static != nil:
		return w.table.Resolved(*e.static, e.addrs)
	case e.domain != nil:
		return w.learnZone(*e.domain, e.hosts)
	case e.asked:
		w.asking = false
	case e.closed != 0:
		w.closeSocket(e.closed)
	}
	return false
}

func (w *watch) learnPacket(now time.Time, p heardPacket) (changed bool) {
	via, ok := w.linkOf(p.ifIndex)
	if !ok {
		return false
	}
	h := hearing{from: p.from, via: via, links: w.links}
	if p.asked && !h.ours(p.from.WithZone("")) {
		w.questions.heard(now, via.iface.Index)
	}
	for _, r := range p.found {
		s := Sighting{Peer: r.peer, Addrs: h.addresses(r), Via: wayOf(via, p.family)}
		changed = w.seen(now, s) || changed
	}
	for _, who := range p.gone {
		w.table.Gone(now, who)
	}
	for _, who := range p.left {
		w.table.Left(now, who)
	}
	return changed
}

// learnZone leaves out whoever has no address but ours: that is this host, or one that cannot be reached.
func (w *watch) learnZone(d Domain, hosts []record) (changed bool) {
	links, err := usableLinks(nil) // multicast may be switched off
	if err != nil {
		links = w.links
	}
	var peers []Peer
	for _, r := range hosts {
		p := r.peer
		p.Port = r.port
		for _, a := range (hearing{links: links}).addresses(r) {
			p.Addrs = append(p.Addrs, a.AddrPort)
		}
		if len(p.Addrs) > 0 {
			peers = append(peers, p)
		}
	}
	return w.table.Listed(d.String(), peers)
}

func (w *watch) linkOf(ifIndex int) (link, bool) {
	for _, l := range w.links {
		if l.iface.Index == ifIndex {
			return l, true
		}
	}
	return link{}, false
}

func (w *watch) seen(now time.Time, s Sighting) bool {
	changed, err := w.table.Seen(now, s)
	if err != nil && !w.full {
		w.log.Warn("peers are ignored until others expire", "count", maxPeers, "err", err)
	}
	w.full = err != nil
	return changed
}

// tell hands out the table and notices when somebody else has our name.
func (w *watch) tell() {
	host := w.table.SelfHost()
	w.mu.Lock()
	before := w.host
	w.host = host
	w.mu.Unlock()
	if host != before && host != w.cfg.Self.Host {
		w.log.Warn("another node has this host's name: others see this one under a longer name; start one of them with --name",
			"host", w.cfg.Self.Host, "seen_as", host)
	}
	w.told(w.table.Peers())
}

func (w *watch) untilNext(now time.Time) time.Duration {
	next := now.Add(lookAround)
	for _, t := range []time.Time{w.table.Next(), w.questions.next} {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return max(0, next.Sub(now))
}
