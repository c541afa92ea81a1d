package testnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// hubPlace is what the hub has of a channel.
type hubPlace struct {
	frame   []byte
	number  uint64 // of frame, counted from 1
	history [][]byte
	spare   [][]byte // what Reorders holds back
}

// HubChannel is a host's view of one channel at the hub. It has the methods of hubway.Channel.
type HubChannel struct {
	host *HubHost
	of   string // the host that the channel is of
	name string

	// Under hub.mu.
	closed  bool
	unacked int
	began   bool     // the hub knows the reader
	asked   int      // pulls that have no answer here
	pulls   int      // at the hub
	seen    uint64   // number of the newest frame that the hub has sent
	got     [][]byte // arrived, not taken
}

// hubFlight is a frame that is not acknowledged.
type hubFlight struct {
	channel *HubChannel
	acked   chan error
}

var errHubChannel = errors.New("channel closed")

// Channel is the place of a channel's newest frame at the hub.
func (o *HubHost) Channel(host, channel string) *HubChannel {
	return &HubChannel{host: o, of: host, name: channel}
}

// over is why a call ends early, or nil. Needs mu.
func (c *HubChannel) over() error {
	if c.closed {
		return errors.Join(errHubChannel, net.ErrClosed)
	}
	return nil
}

// Room blocks until a frame would leave at once. It fails at once without a connection.
func (c *HubChannel) Room(ctx context.Context, _ int) error {
	var err error
	if late := c.host.wait(ctx, nil, func() (bool, time.Time) {
		var free bool
		free, err = c.room()
		return free || err != nil, c.host.up.opens()
	}); late != nil {
		return late
	}
	return err
}

// room reports whether a frame would leave at once. Needs mu.
func (c *HubChannel) room() (bool, error) {
	switch err := c.over(); {
	case err != nil:
		return false, err
	case !c.host.connected:
		return false, c.host.away()
	}
	return c.unacked < hubUnacked && c.host.up.opens().IsZero(), nil
}

// Put sends b to the hub as soon as there is room. The hub's word follows in acked.
func (c *HubChannel) Put(ctx context.Context, b []byte) (<-chan error, error) {
	if c.of != c.host.name {
		return nil, fmt.Errorf("host %s: puts a frame of %s", c.host.name, c.of)
	}
	if len(b) > c.host.hub.maxFrame {
		return nil, fmt.Errorf("frame of %d bytes: %w", len(b), ErrHubTooLarge)
	}
	var err error
	f := &hubFlight{c, make(chan error, 1)}
	if late := c.host.wait(ctx, nil, func() (bool, time.Time) {
		var free bool
		if free, err = c.room(); free {
			c.fly(f, bytes.Clone(b))
		}
		return free || err != nil, c.host.up.opens()
	}); late != nil {
		return nil, late
	}
	if err != nil {
		return nil, err
	}
	return f.acked, nil
}

// fly sends a frame. Needs mu.
func (c *HubChannel) fly(f *hubFlight, b []byte) {
	c.unacked++
	c.host.flights[f] = true
	c.host.up.send(len(b), func() {
		c.host.hub.store(c.of+"/"+c.name, b)
		c.host.down.send(0, func() { f.settle(nil) })
	})
}

// settle passes on the hub's word. Needs mu.
func (f *hubFlight) settle(err error) {
	o := f.channel.host
	delete(o.flights, f)
	f.channel.unacked--
	f.acked <- err
	o.rouse()
}

// store makes b the newest frame of a channel. Needs mu.
func (h *Hub) store(key string, b []byte) {
	p := h.place(key)
	p.frame = b
	p.number++
	p.history = append(p.history, b)
	if h.deceit.Frames == Honest {
		p.history = p.history[:0]
	}
	for _, o := range h.hosts {
		for r := range o.readers {
			if r.of+"/"+r.name == key {
				r.serve()
			}
		}
	}
}

func (h *Hub) place(key string) *hubPlace {
	p := h.places[key]
	if p == nil {
		p = &hubPlace{}
		h.places[key] = p
	}
	return p
}

// Next waits for the next frame; of several that have come since the last call it is the newest.
// It waits for a connection, too.
func (c *HubChannel) Next(ctx context.Context) (b []byte, err error) {
	if late := c.host.wait(ctx, nil, func() (bool, time.Time) {
		if err = c.over(); err != nil {
			return true, time.Time{}
		}
		if n := len(c.got); n > 0 {
			b, c.got = c.got[n-1], nil
		}
		c.ask()
		return b != nil, time.Time{}
	}); late != nil {
		return nil, late
	}
	return b, err
}

// ask sends pulls, as many as there may be. Needs mu.
func (c *HubChannel) ask() {
	if !c.host.connected {
		return
	}
	if !c.began {
		c.began = true
		c.host.readers[c] = true
	}
	for ; c.asked < hubPulls; c.asked++ {
		c.host.up.send(0, func() {
			c.pulls++
			c.serve()
		})
	}
}

// serve sends what the hub has, if a pull waits. Needs mu.
func (c *HubChannel) serve() {
	h, p := c.host.hub, c.host.hub.place(c.of+"/"+c.name)
	if c.pulls == 0 || c.seen == p.number || !c.host.readers[c] {
		return
	}
	c.seen = p.number
	for i, b := range h.answers(c, p) {
		c.pulls = max(c.pulls-1, 0)
		life := c.host.life
		h.later(h.deceit.Frames, i, func() {
			if c.host.life == life {
				c.host.down.send(len(b), func() { c.take(bytes.Clone(b)) })
			}
		})
	}
}

// take hands a frame to the reader. Needs mu.
func (c *HubChannel) take(b []byte) {
	if !c.began {
		return // of an earlier connection
	}
	c.asked = max(c.asked-1, 0)
	if c.got = append(c.got, b); len(c.got) > hubPulls {
		c.got = c.got[1:]
	}
	c.host.rouse()
}

// lost forgets what the reader has at the hub. Needs mu.
func (c *HubChannel) lost() {
	delete(c.host.readers, c)
	c.began, c.asked, c.pulls, c.seen, c.got = false, 0, 0, 0, nil
}

// Close ends calls that wait.
func (c *HubChannel) Close() {
	c.host.hub.mu.Lock()
	defer c.host.hub.mu.Unlock()
	c.closed = true
	c.lost()
	c.host.rouse()
}
