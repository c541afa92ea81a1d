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
	listInterfacesEvery      = time.Second     // how often the interfaces are listed
	registerEvery            = 5 * time.Second // least time between two registrations when the list of channels changes
	relinkEvery              = time.Second     // least time between two registrations when interfaces change or one has failed
	announcementsPerLifetime = 4               // announcements within one life
	// maxAnnounceInterval is the longest time between two announcements, without its jitter of a tenth. It is so short since
	// no host believes an announcement for longer than maxBelief.
	maxAnnounceInterval = 27 * time.Second
)

// Announcer keeps one mDNS service for this host on the network.
type Announcer struct {
	cfg     Config
	log     *slog.Logger
	changed chan struct{} // room for one

	mu         sync.Mutex
	channels   []Channel       // wanted, by name
	hidden     int             // number of wanted channels that are not announced by name
	network    string          // that is announced
	lastRecord announcedRecord // the last announcement
	leaving    bool            // Run has begun to say goodbye

	registrations []*registration // that zeroconf answers questions for
}

// NewAnnouncer checks all of cfg and reports every problem at once.
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
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		a.announce(ctx)
	}()
	<-ctx.Done()
	a.silence()
	// announce says goodbye too, but it may be waiting for the kernel to begin or end a registration.
	if err := a.lastAnnounced().send(0); err != nil {
		a.log.Warn("cannot say goodbye", "err", err)
	}
	awaitStop(stopped)
	return nil
}

// silence keeps announcements from following the goodbye: until the process ends, zeroconf answers questions, and
// announces a registration that is younger than 1.5 s. A host that heard such an announcement would list this one until
// its life is over.
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

// setRegistrations notes which registrations zeroconf answers for now.
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

// announceState is the state that the goroutine of announce owns.
type announceState struct {
	*Announcer
	registration *registration // nil: not registered
	lastAttempt  time.Time     // time of the last registration or failure
	nextRepeat   time.Time     // time of the next repetition
	problem      lastingError  // the last trouble that was logged
}

// currentRecord is the record to announce now, and the interfaces to announce it on.
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

// step registers the service if the record or the interfaces have changed, or repeats the announcement if it is time.
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
	case r.registration == nil && since < relinkEvery:
	case r.registration == nil, !sameSockets(r.registration.links, links) && since >= relinkEvery:
		r.register(now, rec, links)
	case !samePeer(r.registration.rec.peer, rec.peer) && since >= registerEvery:
		r.register(now, rec, links)
	case !sameLinks(r.lastAnnounced().links, links), !now.Before(r.nextRepeat):
		// A new address needs no new registration: zeroconf looks addresses up for every answer.
		r.repeat(now, links)
	}
}

// register replaces the registration. zeroconf cannot end the old one without a goodbye for the host. So the new one
// begins before, and an announcement right after that goodbye rescues the records.
func (r *announceState) register(now time.Time, rec record, links []link) {
	r.lastAttempt = now
	before := r.lastAnnounced()
	r.setLastAnnounced(announcedRecord{rec, links}) // before others can hear it
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

// repeat announces the record again, unless Run says goodbye.
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

// schedule sets the time of the next repetition. A jitter of a tenth spreads hosts that were switched on together.
func (r *announceState) schedule(now time.Time) {
	period := min(r.cfg.Self.lifetime/announcementsPerLifetime, maxAnnounceInterval)
	r.nextRepeat = now.Add(period*9/10 + rand.N(period/5+1))
}

// untilNextStep returns when step has something to do next, if nothing changes before.
func (r *announceState) untilNextStep(now time.Time) time.Duration {
	if r.registration == nil {
		return listInterfacesEvery
	}
	return min(listInterfacesEvery, max(0, r.nextRepeat.Sub(now)))
}

// sayGoodbye says goodbye twice, after everything else that Run sends: zeroconf sends one goodbye, then we send one. One
// alone may get lost, and no later packet would make up for it.
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

// logProblem logs an error when it is new.
func (r *announceState) logProblem(err error) {
	if r.problem.isNew(err) {
		r.log.Warn("cannot announce, will try again", "err", err)
	}
}
