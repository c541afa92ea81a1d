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
	listInterfacesEvery      = time.Second     // how often the interfaces are listed, and a failed registration is tried again
	registerEvery            = 5 * time.Second // shortest time between two registrations if the channels change
	announcementsPerLifetime = 4               // announcements within the lifetime of one
	// maxAnnounceInterval is the longest time between two announcements, without the jitter of 10 %. It is well below
	// maxBelief, the longest time for which other hosts believe an announcement.
	maxAnnounceInterval = 27 * time.Second
)

// Announcer announces this host and its channels as one mDNS service.
type Announcer struct {
	cfg     Config
	log     *slog.Logger
	changed chan struct{} // wakes announce; has a buffer of one

	mu         sync.Mutex
	channels   []Channel       // channels to announce, sorted by name
	hidden     int             // number of invalid channels, which are only counted
	network    string          // network to announce
	lastRecord announcedRecord // the last announcement
	leaving    bool            // Run has begun to send goodbyes

	registrations []*registration // registrations for which zeroconf answers queries
}

// NewAnnouncer returns an Announcer, or an error with all problems in cfg.
func NewAnnouncer(cfg Config) (*Announcer, error) {
	if err := cfg.checkAnnounce(); err != nil {
		return nil, err
	}
	if cfg.Self.lifetime == 0 {
		cfg.Self.lifetime = defaultLifetime
	}
	a := &Announcer{cfg: cfg, log: cfg.logger(), changed: make(chan struct{}, 1), network: cfg.Self.Network}
	a.Update(cfg.Self.Channels)
	return a, nil
}

// Update sets the channels to announce and returns at once. The change is announced immediately, or within six seconds if
// the previous change is younger than that. Channels with names or sizes that no other node accepts are only counted in
// More. Update is safe for concurrent use, before and during Run.
func (a *Announcer) Update(channels []Channel) {
	good := slices.DeleteFunc(slices.Clone(channels), func(c Channel) bool { return c.check() != nil })
	slices.SortFunc(good, byName)
	a.mu.Lock()
	a.channels = good
	a.hidden = len(channels) - len(good)
	a.mu.Unlock()
	a.wake()
}

// Join sets the network to announce. It panics if network is not 8 hex digits. Join is safe for concurrent use, before and
// during Run.
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

// Run announces until ctx ends, then sends goodbyes and returns nil within a second. It handles interfaces that are added
// and removed, and waits while there is none. Call it once.
func (a *Announcer) Run(ctx context.Context) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		a.announce(ctx)
	}()
	<-ctx.Done()
	a.silence()
	// The goroutine of announce sends goodbyes too, but the kernel may block it in a registration.
	if err := a.lastAnnounced().send(0); err != nil {
		a.log.Warn("cannot say goodbye", "err", err)
	}
	awaitStop(stopped)
	return nil
}

// silence keeps zeroconf from announcing this host after the goodbye. Until the process ends, zeroconf answers queries and
// announces registrations younger than 1.5 s. A host that received such an announcement would list this host for the
// announcement's lifetime.
func (a *Announcer) silence() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaving = true
	for _, reg := range a.registrations {
		reg.silence()
	}
}

func (a *Announcer) isLeaving() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leaving
}

// setRegistrations records the registrations for which zeroconf answers queries now. Nil ones are ignored.
func (a *Announcer) setRegistrations(regs ...*registration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.registrations = slices.DeleteFunc(regs, func(r *registration) bool { return r == nil })
	if a.leaving {
		for _, reg := range a.registrations {
			reg.silence()
		}
	}
}

func (a *Announcer) lastAnnounced() announcedRecord {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastRecord
}

func (a *Announcer) setLastAnnounced(s announcedRecord) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastRecord = s
}

func (a *Announcer) announce(ctx context.Context) {
	r := &announceState{Announcer: a}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.sayGoodbye()
			return
		case <-a.changed:
		case <-timer.C:
		}
		now := time.Now()
		r.step(now)
		timer.Reset(r.untilNextStep(now))
	}
}

// announceState is the state of an Announcer that the goroutine of announce owns.
type announceState struct {
	*Announcer
	registration *registration // nil if the service is not registered
	lastAttempt  time.Time     // when register was last called
	nextRepeat   time.Time     // when to repeat the announcement
	problem      lastingError  // the last error that was logged
}

// currentRecord returns the record to announce now and the interfaces to announce it on.
func (r *announceState) currentRecord() (record, []link, error) {
	links, err := usableLinks(r.cfg.Interfaces)
	rec := record{peer: r.cfg.Self, port: uint16(r.cfg.Port)}
	r.mu.Lock()
	rec.peer.Channels = r.channels
	rec.peer.Network = r.network
	rec.peer.More += r.hidden
	r.mu.Unlock()
	return rec, links, err
}

// step registers the service if the record or the interfaces have changed, and repeats the announcement if it is due.
func (r *announceState) step(now time.Time) {
	rec, links, err := r.currentRecord()
	if err == nil && len(links) == 0 {
		err = noInterface(r.cfg.Interfaces)
		r.sayGoodbye()
	}
	if err != nil {
		r.logProblem(err)
		return
	}
	since := now.Sub(r.lastAttempt)
	switch {
	case r.registration == nil && since < listInterfacesEvery:
	case r.registration == nil, !sameSockets(r.registration.links, links) && since >= listInterfacesEvery:
		r.register(now, rec, links)
	case !samePeer(r.registration.rec.peer, rec.peer) && since >= registerEvery:
		r.register(now, rec, links)
	case !sameLinks(r.lastAnnounced().links, links), !now.Before(r.nextRepeat):
		// A new address needs no registration, since zeroconf reads the addresses of an interface for each answer.
		r.repeat(now, links)
	}
}

// register replaces the registration. zeroconf sends a goodbye for the host when the old one ends. So register begins the
// new one first, and repeats the announcement right after that goodbye to rescue the records.
func (r *announceState) register(now time.Time, rec record, links []link) {
	r.lastAttempt = now
	before := r.lastAnnounced()
	r.setLastAnnounced(announcedRecord{rec, links}) // before another host can receive it
	reg, err := newRegistration(rec, links)
	if err != nil {
		r.setLastAnnounced(before)
		r.logProblem(err)
		return
	}
	old := r.registration
	r.registration = reg
	r.setRegistrations(old, reg)
	if old != nil {
		old.end()
		r.setRegistrations(reg)
		r.repeat(now, links)
		return
	}
	r.problem.isNew(nil)
	r.log.Info("announcing on the network", "host", rec.peer.Host, "interfaces", namesOf(links), "count", len(rec.peer.Channels))
	r.schedule(now)
}

// repeat announces the record again, unless Run has begun to send goodbyes.
func (r *announceState) repeat(now time.Time, links []link) {
	if r.isLeaving() {
		return
	}
	s := announcedRecord{r.registration.rec, links}
	r.setLastAnnounced(s)
	if err := s.send(s.rec.peer.lifetime); err != nil {
		r.logProblem(err)
	} else {
		r.problem.isNew(nil)
	}
	r.schedule(now)
}

// schedule sets the time of the next repetition. A jitter of 10 % spreads the announcements of hosts that were switched on
// together.
func (r *announceState) schedule(now time.Time) {
	period := min(r.cfg.Self.lifetime/announcementsPerLifetime, maxAnnounceInterval)
	r.nextRepeat = now.Add(period*9/10 + rand.N(period/5+1))
}

// untilNextStep returns the time until step has something to do if nothing changes before.
func (r *announceState) untilNextStep(now time.Time) time.Duration {
	if r.registration == nil {
		return listInterfacesEvery
	}
	return min(listInterfacesEvery, max(0, r.nextRepeat.Sub(now)))
}

// sayGoodbye ends the registration. zeroconf sends a goodbye, and sayGoodbye sends a second one in case the first is lost,
// since no later packet would replace it.
func (r *announceState) sayGoodbye() {
	if r.registration == nil {
		return
	}
	r.registration.end()
	if err := r.lastAnnounced().send(0); err != nil {
		r.logProblem(err)
	}
	r.setLastAnnounced(announcedRecord{})
	r.setRegistrations()
	r.registration = nil
}

// logProblem logs err if it differs from the last error.
func (r *announceState) logProblem(err error) {
	if r.problem.isNew(err) {
		r.log.Warn("cannot announce, will try again", "err", err)
	}
}
