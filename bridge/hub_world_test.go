package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/hubway"
	"achbridge/bridge/rule"
	"achbridge/testnet"
)

// worldHub is the hub of a world. It is testnet's hub, with a tap on each host's connection.
type worldHub struct {
	*testnet.Hub
	mu   sync.Mutex
	taps map[string]*hubTap
	lie  hubLie
}

// hubLie returns the frames that a reader gets in place of a frame.
type hubLie func(reader, channel string, b []byte) [][]byte

// hubTap is a host's connection to the hub.
type hubTap struct {
	*testnet.HubHost
	hub   *worldHub
	name  string
	puts  int    // number of frames put by the host; guarded by hub.mu
	ups   uint64 // bytes of those frames; guarded by hub.mu
	delay func() // called in a put; nil means no call; guarded by hub.mu

	refused int // number of the next frames that the hub reports as not stored; guarded by hub.mu
}

// hubDelay is the delay from a host to the hub.
const hubDelay = 10 * time.Millisecond

const hubMaxFrame = 8 << 20

func newWorldHub(w *world, maxFrame int) *worldHub {
	w.t.Cleanup(func() { time.Sleep(time.Second) }) // data in transit arrives
	return &worldHub{Hub: testnet.NewHub(maxFrame), taps: map[string]*hubTap{}}
}

// as returns the host's view of the hub. The first call connects the host, with the given rate in
// bit/s; 0 means no limit.
func (h *worldHub) as(host string, rate int64) *hubTap {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.taps[host] == nil {
		line := testnet.Params{Delay: hubDelay, Rate: rate}
		h.taps[host] = &hubTap{HubHost: h.Host(host, line, line), hub: h, name: host}
	}
	return h.taps[host]
}

// tap calls f, which may change or read a host's connection.
func (h *worldHub) tap(host string, f func(t *hubTap)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h.taps[host])
}

// lies makes the hub deliver the frames that tell returns in place of a frame.
func (h *worldHub) lies(lie hubLie) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lie = lie
}

// puts returns the number of frames that a host has put.
func (h *worldHub) puts(host string) (count int) {
	h.tap(host, func(t *hubTap) { count = t.puts })
	return count
}

// reportedError converts an error of testnet to an error of package hubway.
func reportedError(err error) error {
	switch {
	case errors.Is(err, testnet.ErrHubAway):
		return fmt.Errorf("%w%.0w", err, hubway.ErrAway)
	case errors.Is(err, testnet.ErrHubTooLarge):
		return fmt.Errorf("%w: raise max_payload%.0w", err, hubway.ErrTooLarge)
	}
	return err
}

func (t *hubTap) Dial(ctx context.Context, host string) (net.Conn, error) {
	conn, err := t.HubHost.Dial(ctx, host)
	return conn, reportedError(err)
}

func (t *hubTap) Channel(host, channel string) hubway.Channel {
	return &hubTapped{HubChannel: t.HubHost.Channel(host, channel), tap: t, name: host + "/" + channel}
}

// hubTapped is a host's view of one channel.
type hubTapped struct {
	*testnet.HubChannel
	tap  *hubTap
	name string
	lies [][]byte // delivered next
}

func (c *hubTapped) Room(ctx context.Context, size int) error {
	return reportedError(c.HubChannel.Room(ctx, size))
}

func (c *hubTapped) Put(ctx context.Context, b []byte) (<-chan error, error) {
	t := c.tap
	t.hub.mu.Lock()
	delay := t.delay
	t.hub.mu.Unlock()
	if delay != nil {
		delay()
	}
	acked, err := c.HubChannel.Put(ctx, b)
	if err != nil {
		return nil, reportedError(err)
	}
	t.hub.mu.Lock()
	defer t.hub.mu.Unlock()
	t.puts, t.ups = t.puts+1, t.ups+uint64(len(b))
	if t.refused > 0 {
		t.refused--
		refused := make(chan error, 1)
		go func() {
			<-acked
			refused <- errors.New("its memory is full")
		}()
		return refused, nil
	}
	return acked, nil
}

func (c *hubTapped) Next(ctx context.Context) ([]byte, error) {
	for len(c.lies) == 0 {
		b, err := c.HubChannel.Next(ctx)
		if err != nil {
			return nil, reportedError(err)
		}
		c.lies = [][]byte{b}
		h := c.tap.hub
		h.mu.Lock()
		if h.lie != nil {
			c.lies = h.lie(c.tap.name, c.name, b)
		}
		h.mu.Unlock()
	}
	b := c.lies[0]
	c.lies = c.lies[1:]
	return b, nil
}

// atHub starts the host's node with the hub, and the given hosts at the hub as peers.
func (h *host) atHub(hub *worldHub, cfg Config, others ...string) *host {
	cfg.Hub = hub.as(h.name, 0)
	h.run(cfg)
	h.knows(others)
	return h
}

// knows sets the peers of the host's node: some at the hub, and others by their addresses.
func (h *host) knows(atHub []string, direct ...*host) {
	peers := asPeers(direct)
	for _, o := range atHub {
		peers = append(peers, Peer{Host: o, Source: "hub", Hub: true})
	}
	h.node.SetPeers(peers)
}

// hubPair returns a robot and a PC that are connected only through the hub.
func (w *world) hubPair(qos rule.QoS) (hub *worldHub, robot, pc *host) {
	hub = newWorldHub(w, hubMaxFrame)
	robot, pc = w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{})
	robot.atHub(hub, Config{}, "pc")
	pc.atHub(hub, mirrorAll(qos), "robot")
	return hub, robot, pc
}

// wantClosed checks that both ends have the same frame counters, and that these add up.
func wantClosed(t *testing.T, pc, robot *host) {
	t.Helper()
	mirrors, exports := pc.node.Status().Mirrors, robot.node.Status().Exports
	for _, m := range mirrors {
		a := m.FrameCounters
		if a.Offered == 0 || a.Offered != a.Settled() || a.InFlight != 0 {
			t.Errorf("%s: the counters do not add up: %+v, settled %d", m.Name, a, a.Settled())
		}
		for _, e := range exports {
			if e.Peer == pc.name && e.Channel == m.Channel && e.FrameCounters != a {
				t.Errorf("%s: got %+v at the origin, %+v at the mirror", m.Name, e.FrameCounters, a)
			}
		}
	}
}
