package discovery

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	lookAround    = time.Second     // how often the interfaces are listed
	registerEvery = 5 * time.Second // least time between two registrations when the list of channels changes
	relinkEvery   = time.Second     // least time between two registrations when interfaces change or one has failed
	againPerLife  = 4               // announcements within one life
	// againAtLeast is the longest time between two announcements, without its jitter of a tenth. It is so short since
	// no host believes an announcement for longer than maxBelief.
	againAtLeast = 27 * time.Second
)

// Announcer keeps one mDNS service for this host on the network.
type Announcer struct {
	cfg     Config
	log     *slog.Logger
	changed chan struct{} // room for one

	mu       sync.Mutex
	channels []Channel // wanted, by name
	hidden   int       // number of wanted channels that are not announced by name
	network  string    // that is announced
	said     spoken    // the last announcement
	leaving  bool      // Run has begun to say goodbye

	serving []*registration // that zeroconf answers questions for
}

// NewAnnouncer checks all of cfg and reports every problem at once.
func NewAnnouncer(cfg Config) (*Announcer, error) {
	if err := cfg.checkAnnounce(); err != nil {
		return nil, err
	}
	if cfg.Self.life == 0 {
		cfg.Self.life = defaultLife
	}
	a := &Announcer{cfg: cfg, log: cfg.logger(), changed: make(chan struct{}, 1), network: cfg.Self.Network}
	a.Update(cfg.Self.Channels)
	return a, nil
}

// Update sets the channels to announce and returns at once. The network hears of it immediately when the last change is
// older than six seconds, else within six seconds. A channel that no other node would accept, by its name or size, is
// counted in More instead. Safe for concurrent use, before and during Run.
func (a *Announcer) Update(channels []Channel) {
	good := slices.DeleteFunc(slices.Clone(channels), func(c Channel) bool { return c.check() != nil })
	slices.SortFunc(good, byName)
	a.mu.Lock()
	a.channels = good
	a.hidden = len(channels) - len(good)
	a.mu.Unlock()
	a.wake()
}

// Join sets the network to announce from the next Update on. It panics when network is not 8 hex digits. Safe for
// concurrent use, before and during Run.
func (a *Announcer) Join(network string) {
	if !isHex(network, 8) {
		panic("discovery: not a network: " + network)
	}
	a.mu.Lock()
	a.network = network
	a.mu.Unlock()
	a.wake()
}

func (a *Announcer) wake() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// Run announces until ctx ends, then says goodbye and returns nil within a second. It waits for networks that are missing
// or come and go. Call it once.
func (a *Announcer) Run(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.announce(ctx)
	}()
	<-ctx.Done()
	a.silence()
	// announce says goodbye too, but it may be waiting for the kernel to begin or end a registration.
	if err := a.spoken().say(0); err != nil {
		a.log.Warn("cannot say goodbye", "err", err)
	}
	awaitEnd(ended)
	return nil
}

// silence keeps announcements from following the goodbye: until the process ends, zeroconf answers questions, and
// announces a registration that is younger than 1.5 s. A host that heard such an announcement would list this one until
// its life is over.
func (a *Announcer) silence() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaving = true
	for _, reg := range a.serving {
		reg.silence()
	}
}

func (a *Announcer) isLeaving() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leaving
}

// serves notes which registrations zeroconf answers for now.
func (a *Announcer) serves(regs ...*registration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.serving = slices.DeleteFunc(regs, func(r *registration) bool { return r == nil })
	if a.leaving {
		for _, reg := range a.serving {
			reg.silence()
		}
	}
}

func (a *Announcer) spoken() spoken {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.said
}

func (a *Announcer) setSpoken(s spoken) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said = s
}

func (a *Announcer) announce(ctx context.Context) {
	r := &running{Announcer: a}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.leave()
			return
		case <-a.changed:
		case <-timer.C:
		}
		now := time.Now()
		r.step(now)
		timer.Reset(r.untilNext(now))
	}
}

// running is the state that the goroutine of announce owns.
type running struct {
	*Announcer
	reg     *registration // nil: not registered
	attempt time.Time     // time of the last registration or failure
	again   time.Time     // time of the next repetition
	trouble trouble       // the last trouble that was logged
}

// wanted is the record to announce now, and the interfaces to announce it on.
func (r *running) wanted() (record, []link, error) {
	links, err := usableLinks(r.cfg.Interfaces)
	rec := record{peer: r.cfg.Self, port: uint16(r.cfg.Port)}
	r.mu.Lock()
	rec.peer.Channels = r.channels
	rec.peer.Network = r.network
	rec.peer.More += r.hidden
	r.mu.Unlock()
	return rec, links, err
}

// step registers the service if the record or the interfaces have changed, or repeats the announcement if it is time.
func (r *running) step(now time.Time) {
	rec, links, err := r.wanted()
	if err == nil && len(links) == 0 {
		err = noInterface(r.cfg.Interfaces)
		r.leave()
	}
	if err != nil {
		r.complain(err)
		return
	}
	since := now.Sub(r.attempt)
	switch {
	case r.reg == nil && since < relinkEvery:
	case r.reg == nil, !sameSockets(r.reg.links, links) && since >= relinkEvery:
		r.register(now, rec, links)
	case !samePeer(r.reg.rec.peer, rec.peer) && since >= registerEvery:
		r.register(now, rec, links)
	case !sameLinks(r.spoken().links, links), !now.Before(r.again):
		// A new address needs no new registration: zeroconf looks addresses up for every answer.
		r.repeat(now, links)
	}
}

// register replaces the registration. zeroconf cannot end the old one without a goodbye for the host. So the new one
// begins before, and an announcement right after that goodbye rescues the records.
func (r *running) register(now time.Time, rec record, links []link) {
	r.attempt = now
	before := r.spoken()
	r.setSpoken(spoken{rec, links}) // before others can hear it
	reg, err := newRegistration(rec, links)
	if err != nil {
		r.setSpoken(before)
		r.complain(err)
		return
	}
	old := r.reg
	r.reg = reg
	r.serves(old, reg)
	if old != nil {
		old.end()
		r.serves(reg)
		r.repeat(now, links)
		return
	}
	r.trouble.begins(nil)
	r.log.Info("announcing on the network", "host", rec.peer.Host, "interfaces", namesOf(links), "count", len(rec.peer.Channels))
	r.schedule(now)
}

// repeat announces the record again, unless Run says goodbye.
func (r *running) repeat(now time.Time, links []link) {
	if r.isLeaving() {
		return
	}
	s := spoken{r.reg.rec, links}
	r.setSpoken(s)
	if err := s.say(s.rec.peer.life); err != nil {
		r.complain(err)
	} else {
		r.trouble.begins(nil)
	}
	r.schedule(now)
}

// schedule sets the time of the next repetition. A jitter of a tenth spreads hosts that were switched on together.
func (r *running) schedule(now time.Time) {
	period := min(r.cfg.Self.life/againPerLife, againAtLeast)
	r.again = now.Add(period*9/10 + rand.N(period/5+1))
}

// untilNext returns when step has something to do next, if nothing changes before.
func (r *running) untilNext(now time.Time) time.Duration {
	if r.reg == nil {
		return lookAround
	}
	return min(lookAround, max(0, r.again.Sub(now)))
}

// leave says goodbye twice, after everything else that Run sends: zeroconf sends one goodbye, then we send one. One
// alone may get lost, and no later packet would make up for it.
func (r *running) leave() {
	if r.reg == nil {
		return
	}
	r.reg.end()
	if err := r.spoken().say(0); err != nil {
		r.complain(err)
	}
	r.setSpoken(spoken{})
	r.serves()
	r.reg = nil
}

// complain logs an error when it is new.
func (r *running) complain(err error) {
	if r.trouble.begins(err) {
		r.log.Warn("cannot announce, will try again", "err", err)
	}
}
