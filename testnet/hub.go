package testnet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Hub is a hub in memory, best in a testing/synctest bubble. Like a NATS server it passes byte
// streams between hosts and keeps the newest frame of each channel. Each host has one connection: a
// line up and a line down with a delay and a rate, which keep all messages in order, as TCP does. It
// can deceive its hosts, see Deceive. A Hub is safe for concurrent use.
type Hub struct {
	mu           sync.Mutex
	hosts        map[string]*HubHost
	channels     map[string]*hubStored // keyed by host/channel
	maxFrame     int
	deceit       Deceit
	heldMessages map[string]hubMessage // messages that Reorders holds back, by stream and sender
	routes       map[string]hubRoute   // misrouted streams, by id
	delayed      hubLine               // queue of the messages that Delays delays
}

const (
	// hubOverhead is the size of a message on a line besides its data, in bytes.
	hubOverhead = 100
	// hubMaxUnacked is the maximum number of frames of a channel that may be unacknowledged.
	hubMaxUnacked = 2
	// hubMaxFetches is the maximum number of fetches of a reader that may be unanswered.
	hubMaxFetches = 3
)

var (
	// ErrHubAway means that a host has no connection to the hub.
	ErrHubAway = errors.New("not connected to the hub")
	// ErrHubTooLarge means that a frame is larger than the hub accepts.
	ErrHubTooLarge = errors.New("larger than the hub takes")
)

// NewHub returns a hub without hosts that accepts frames of at most maxFrame bytes.
func NewHub(maxFrame int) *Hub {
	h := &Hub{hosts: map[string]*HubHost{}, channels: map[string]*hubStored{}, heldMessages: map[string]hubMessage{}, routes: map[string]hubRoute{}, maxFrame: maxFrame}
	h.delayed.hub = h
	return h
}

// HubHost is one host's connection to a hub. It implements hubway.Hub.
type HubHost struct {
	hub  *Hub
	name string

	// Guarded by hub.mu.
	up, down  hubLine
	connected bool
	connCount int           // number of connections so far
	changed   chan struct{} // closed and replaced when the state below or of a channel changes
	arrivals  []*HubStream
	streams   map[string]*HubStream // keyed by the other host and the id
	readers   map[*HubChannel]bool  // channels that are read over the current connection
	unacked   map[*hubPut]bool
	dialCount int
}

// Host adds a host and connects it by lines with these parameters. Only Delay and Rate may be set.
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

// Cut ends the connection of a host until Restore. Its streams end at both ends, and messages in
// flight are lost.
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

// Restore reconnects a host that was cut.
func (h *Hub) Restore(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.hosts[name]
	o.connected = true
	o.wake()
}

// Stall delays all messages from and to a host until Resume, like a path that is cut where neither
// end notices.
func (h *Hub) Stall(name string) { h.stall(name, true) }

// Resume ends a Stall. The delayed messages are delivered.
func (h *Hub) Resume(name string) { h.stall(name, false) }

func (h *Hub) stall(name string, on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.hosts[name]
	o.up.stall(on)
	o.down.stall(on)
}

// Forget restarts the hub without its frames. All connections end and are restored.
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

// wake wakes all goroutines that wait for a change of the host. hub.mu must be held.
func (o *HubHost) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// wait calls try with hub.mu held, at once and after each change, until try returns true, ctx ends
// or d passes. If try returns a time, wait also calls it again at that time.
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

// errAway returns the error of a call that needs a connection.
func (o *HubHost) errAway() error { return fmt.Errorf("host %s: %w", o.name, ErrHubAway) }
