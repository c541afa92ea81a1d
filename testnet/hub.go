package testnet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Hub is a hub in memory, best in a testing/synctest bubble: hosts reach one another through it, by
// byte streams, and by the newest frame of each channel, as they do through a NATS server. Each
// host has one connection, a line up and a line down with a delay and a rate, in which nothing is
// lost and nothing is overtaken, as in TCP. It can lie: see Deceive. Safe for concurrent use.
type Hub struct {
	mu           sync.Mutex
	hosts        map[string]*HubHost
	channels     map[string]*hubStored // by host/channel
	maxFrame     int
	deceit       Deceit
	heldMessages map[string]hubMessage // what Reorders holds back, by stream and sender
	routes       map[string]hubRoute   // of streams that were led astray, by id
	delayed      hubLine               // what Delays holds up
}

const (
	// hubOverhead is what a message takes on a line beside its bytes.
	hubOverhead = 100
	// hubMaxUnacked is how many frames of a channel may be unacknowledged.
	hubMaxUnacked = 2
	// hubMaxFetches is how many messages a reader asks for that have not come.
	hubMaxFetches = 3
)

var (
	// ErrHubAway says that a host has no connection to the hub.
	ErrHubAway = errors.New("not connected to the hub")
	// ErrHubTooLarge says that a frame is larger than the hub takes.
	ErrHubTooLarge = errors.New("larger than the hub takes")
)

// NewHub makes a hub without hosts; frames have at most maxFrame bytes.
func NewHub(maxFrame int) *Hub {
	h := &Hub{hosts: map[string]*HubHost{}, channels: map[string]*hubStored{}, heldMessages: map[string]hubMessage{}, routes: map[string]hubRoute{}, maxFrame: maxFrame}
	h.delayed.hub = h
	return h
}

// HubHost is one host's connection to a hub. It has the methods of hubway.Hub.
type HubHost struct {
	hub  *Hub
	name string

	// Under hub.mu.
	up, down  hubLine
	connected bool
	connCount int           // counts the connections
	changed   chan struct{} // closed when something changes here
	arrivals  []*HubStream
	streams   map[string]*HubStream // by the other host and the id
	readers   map[*HubChannel]bool  // with a connection
	unacked   map[*hubPut]bool
	dialCount int
}

// Host connects a host by lines of these parameters, of which only Delay and Rate may be set.
func (h *Hub) Host(name string, up, down Params) *HubHost {
	for _, p := range []Params{up, down} {
		if p != (Params{Delay: p.Delay, Rate: p.Rate}) {
			panic("testnet: a line of a hub has a delay and a rate, and nothing else")
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	o := &HubHost{
		hub: h, name: name, up: hubLine{hub: h, params: up}, down: hubLine{hub: h, params: down}, connected: true,
		changed: make(chan struct{}), streams: map[string]*HubStream{}, readers: map[*HubChannel]bool{}, unacked: map[*hubPut]bool{},
	}
	h.hosts[name] = o
	return o
}

// Cut ends the connection of a host: its streams end at both ends, what is under way is lost, and
// there is no other connection until Restore.
func (h *Hub) Cut(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.hosts[name]
	o.connected = false
	o.connCount++
	o.up.clear()
	o.down.clear()
	for f := range o.unacked {
		f.acknowledge(ErrHubAway)
	}
	for r := range o.readers {
		r.reset()
	}
	for _, s := range o.streams {
		s.reset()
	}
	o.arrivals = nil
	o.wake()
}

// Restore connects a host that was cut off.
func (h *Hub) Restore(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.hosts[name]
	o.connected = true
	o.wake()
}

// Stall holds up all that a host sends and gets, until Resume, as a path does that is cut where
// neither end notices.
func (h *Hub) Stall(name string) { h.stall(name, true) }

// Resume lets go what Stall has held up.
func (h *Hub) Resume(name string) { h.stall(name, false) }

func (h *Hub) stall(name string, on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.hosts[name]
	o.up.stall(on)
	o.down.stall(on)
}

// Forget restarts the hub with nothing in it: all connections end and begin anew.
func (h *Hub) Forget() {
	h.mu.Lock()
	names := make([]string, 0, len(h.hosts))
	for name, o := range h.hosts {
		if o.connected {
			names = append(names, name)
		}
	}
	h.mu.Unlock()
	for _, name := range names {
		h.Cut(name)
	}
	h.mu.Lock()
	clear(h.channels)
	h.mu.Unlock()
	for _, name := range names {
		h.Restore(name)
	}
}

// wake wakes whoever waits for a change at the host. Needs mu.
func (o *HubHost) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// wait calls try, with mu held, at once and after each change, until it is done, or ctx or the
// deadline end. What it returns, if anything, is when to look without a change.
func (o *HubHost) wait(ctx context.Context, d *deadline, try func() (done bool, pollAt time.Time)) error {
	for {
		var passed, moved <-chan struct{}
		if d != nil {
			passed, moved = d.signals()
		}
		select {
		case <-passed:
			return errDeadline
		default:
		}
		o.hub.mu.Lock()
		done, pollAt := try()
		changed := o.changed
		o.hub.mu.Unlock()
		if done {
			return nil
		}
		if err := o.block(ctx, changed, passed, moved, pollAt); err != nil {
			return err
		}
	}
}

func (o *HubHost) block(ctx context.Context, changed, passed, moved <-chan struct{}, pollAt time.Time) error {
	var due <-chan time.Time
	if !pollAt.IsZero() {
		timer := time.NewTimer(time.Until(pollAt))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-changed:
	case <-moved:
	case <-due:
	case <-passed:
		return errDeadline
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// errAway is the error of a call that needs a connection.
func (o *HubHost) errAway() error { return fmt.Errorf("host %s: %w", o.name, ErrHubAway) }
