package testnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// hubStored is the state of a channel at the hub.
type hubStored struct {
	frame     []byte
	number    uint64 // number of frame, from 1
	history   [][]byte
	reordered [][]byte // frames that Reorders holds back
}

// HubChannel is a host's view of one channel at the hub. It implements hubway.Channel.
type HubChannel struct {
	host   *HubHost
	origin string // host of the channel
	name   string

	// Guarded by hub.mu.
	closed         bool
	unacked        int
	isReading      bool     // the reader is registered at the hub
	openFetches    int      // fetches that were sent and have no answer yet
	waitingFetches int      // fetches that wait at the hub
	lastServed     uint64   // number of the newest frame that the hub has sent
	arrived        [][]byte // frames that Next has not returned
}

// hubPut is a frame that the hub has not acknowledged.
type hubPut struct {
	channel *HubChannel
	acked   chan error
}

var errHubChannel = errors.New("channel closed")

// Channel returns this host's view of a channel of any host.
func (o *HubHost) Channel(host, channel string) *HubChannel {
	return &HubChannel{host: o, origin: host, name: channel}
}

// closedErr returns an error if the channel is closed. hub.mu must be held.
func (c *HubChannel) closedErr() error {
	if c.closed {
		return errors.Join(errHubChannel, net.ErrClosed)
	}
	return nil
}

// Room blocks until a frame could be sent at once. Without a connection it fails at once.
func (c *HubChannel) Room(ctx context.Context, _ int) error {
	var err error
	if late := c.host.wait(ctx, nil, func() (bool, time.Time) {
		var free bool
		free, err = c.hasRoom()
		return free || err != nil, c.host.up.nextFree()
	}); late != nil {
		return late
	}
	return err
}

// hasRoom reports whether a frame could be sent at once. hub.mu must be held.
func (c *HubChannel) hasRoom() (bool, error) {
	switch err := c.closedErr(); {
	case err != nil:
		return false, err
	case !c.host.connected:
		return false, c.host.errAway()
	}
	return c.unacked < hubMaxUnacked && c.host.up.nextFree().IsZero(), nil
}

// Put sends b to the hub as soon as there is room. The hub's acknowledgement, nil or an error, follows in the channel.
func (c *HubChannel) Put(ctx context.Context, b []byte) (<-chan error, error) {
	if c.origin != c.host.name {
		return nil, fmt.Errorf("host %s: puts a frame of %s", c.host.name, c.origin)
	}
	if len(b) > c.host.hub.maxFrame {
		return nil, fmt.Errorf("frame of %d bytes: %w", len(b), ErrHubTooLarge)
	}
	var err error
	f := &hubPut{c, make(chan error, 1)}
	if late := c.host.wait(ctx, nil, func() (bool, time.Time) {
		var free bool
		if free, err = c.hasRoom(); free {
			c.transmit(f, bytes.Clone(b))
		}
		return free || err != nil, c.host.up.nextFree()
	}); late != nil {
		return nil, late
	}
	if err != nil {
		return nil, err
	}
	return f.acked, nil
}

// transmit sends a frame to the hub. hub.mu must be held.
func (c *HubChannel) transmit(f *hubPut, b []byte) {
	c.unacked++
	c.host.unacked[f] = true
	c.host.up.send(len(b), func() {
		c.host.hub.store(c.origin+"/"+c.name, b)
		c.host.down.send(0, func() { f.acknowledge(nil) })
	})
}

// acknowledge ends f with the hub's answer. hub.mu must be held.
func (f *hubPut) acknowledge(err error) {
	o := f.channel.host
	delete(o.unacked, f)
	f.channel.unacked--
	f.acked <- err
	o.wake()
}

// store makes b the newest frame of a channel and answers waiting fetches. h.mu must be held.
func (h *Hub) store(key string, b []byte) {
	p := h.channel(key)
	p.frame = b
	p.number++
	p.history = append(p.history, b)
	if h.deceit.Frames == Honest {
		p.history = p.history[:0]
	}
	for _, o := range h.hosts {
		for r := range o.readers {
			if r.origin+"/"+r.name == key {
				r.answer()
			}
		}
	}
}

func (h *Hub) channel(key string) *hubStored {
	p := h.channels[key]
	if p == nil {
		p = &hubStored{}
		h.channels[key] = p
	}
	return p
}

// Next blocks until a frame arrives and returns it. If several have arrived since the last call, it
// returns the newest. It also waits for a connection.
func (c *HubChannel) Next(ctx context.Context) (b []byte, err error) {
	if late := c.host.wait(ctx, nil, func() (bool, time.Time) {
		if err = c.closedErr(); err != nil {
			return true, time.Time{}
		}
		if n := len(c.arrived); n > 0 {
			b, c.arrived = c.arrived[n-1], nil
		}
		c.fetch()
		return b != nil, time.Time{}
	}); late != nil {
		return nil, late
	}
	return b, err
}

// fetch sends fetches up to hubMaxFetches. hub.mu must be held.
func (c *HubChannel) fetch() {
	if !c.host.connected {
		return
	}
	if !c.isReading {
		c.isReading = true
		c.host.readers[c] = true
	}
	for ; c.openFetches < hubMaxFetches; c.openFetches++ {
		c.host.up.send(0, func() {
			c.waitingFetches++
			c.answer()
		})
	}
}

// answer sends the channel's newest frame if a fetch waits and the reader does not have it. hub.mu must be held.
func (c *HubChannel) answer() {
	h, p := c.host.hub, c.host.hub.channel(c.origin+"/"+c.name)
	if c.waitingFetches == 0 || c.lastServed == p.number || !c.host.readers[c] {
		return
	}
	c.lastServed = p.number
	for i, b := range h.answers(p) {
		c.waitingFetches = max(c.waitingFetches-1, 0)
		conn := c.host.connCount
		h.later(h.deceit.Frames, i, func() {
			if c.host.connCount == conn {
				c.host.down.send(len(b), func() { c.deliver(bytes.Clone(b)) })
			}
		})
	}
}

// deliver stores a frame for Next. hub.mu must be held.
func (c *HubChannel) deliver(b []byte) {
	if !c.isReading {
		return // the frame is from an earlier connection
	}
	c.openFetches = max(c.openFetches-1, 0)
	if c.arrived = append(c.arrived, b); len(c.arrived) > hubMaxFetches {
		c.arrived = c.arrived[1:]
	}
	c.host.wake()
}

// reset forgets the reader's state at the hub. hub.mu must be held.
func (c *HubChannel) reset() {
	delete(c.host.readers, c)
	c.isReading, c.openFetches, c.waitingFetches, c.lastServed, c.arrived = false, 0, 0, 0, nil
}

// Close ends all calls that wait.
func (c *HubChannel) Close() {
	c.host.hub.mu.Lock()
	defer c.host.hub.mu.Unlock()
	c.closed = true
	c.reset()
	c.host.wake()
}
