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

// worldHub is the hub of a world: testnet's, with a tap on the way of each host.
type worldHub struct {
	*testnet.Hub
	mu   sync.Mutex
	taps map[string]*hubTap
	lie  hubLie
}

// hubLie is what a reader gets in place of a frame.
type hubLie func(reader, channel string, b []byte) [][]byte

// hubTap is a host's way to the hub.
type hubTap struct {
	*testnet.HubHost
	hub   *worldHub
	name  string
	puts  int    // frames that it has put; guarded by hub.mu
	ups   uint64 // their bytes; guarded by hub.mu
	delay func() // called in a put, if not nil; guarded by hub.mu

	refused int // of the next frames the hub says that it has not stored so many; guarded by hub.mu
}

// hubDelay is how long bytes take from a host to the hub.
const hubDelay = 10 * time.Millisecond

const hubMaxFrame = 8 << 20

func newWorldHub(w *world, maxFrame int) *worldHub {
	w.t.Cleanup(func() { time.Sleep(time.Second) }) // what is on its way arrives
	return &worldHub{Hub: testnet.NewHub(maxFrame), taps: map[string]*hubTap{}}
}

// as is the hub as a host sees it, which is connected at the first call by lines of a rate in
// bit/s; 0: any.
func (h *worldHub) as(host string, rate int64) *hubTap {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.taps[host] == nil {
		line := testnet.Params{Delay: hubDelay, Rate: rate}
		h.taps[host] = &hubTap{HubHost: h.Host(host, line, line), hub: h, name: host}
	}
	return h.taps[host]
}

// tap changes a host's way, or looks at it.
func (h *worldHub) tap(host string, f func(t *hubTap)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h.taps[host])
}

// lies has readers get what tell returns in place of a frame.
func (h *worldHub) lies(tell hubLie) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lie = tell
}

// puts is how many frames a host has put.
func (h *worldHub) puts(host string) (count int) {
	h.tap(host, func(t *hubTap) { count = t.puts })
	return count
}

// told makes an error of testnet one of ours.
func told(err error) error {
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
	return conn, told(err)
}

func (t *hubTap) Channel(host, channel string) hubway.Channel {
	return &hubTapped{HubChannel: t.HubHost.Channel(host, channel), tap: t, name: host + "/" + channel}
}

// hubTapped is a host's view of one channel.
type hubTapped struct {
	*testnet.HubChannel
	tap  *hubTap
	name string
	lies [][]byte // that come next
}

func (c *hubTapped) Room(ctx context.Context, size int) error {
	return told(c.HubChannel.Room(ctx, size))
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
		return nil, told(err)
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
			return nil, told(err)
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

// atHub has the host's node use the hub, and gives it the other hosts there as peers.
func (h *host) atHub(hub *worldHub, cfg Config, others ...string) *host {
	cfg.Hub = hub.as(h.name, 0)
	h.run(cfg)
	h.knows(others)
	return h
}

// knows gives the host's node peers at the hub, and others by their addresses.
func (h *host) knows(atHub []string, direct ...*host) {
	peers := asPeers(direct)
	for _, o := range atHub {
		peers = append(peers, Peer{Host: o, Source: "hub", Hub: true})
	}
	h.node.SetPeers(peers)
}

// hubPair is a robot and a PC between which there is no path but the hub.
func (w *world) hubPair(qos rule.QoS) (hub *worldHub, robot, pc *host) {
	hub = newWorldHub(w, hubMaxFrame)
	robot, pc = w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{})
	robot.atHub(hub, Config{}, "pc")
	pc.atHub(hub, mirrorAll(qos), "robot")
	return hub, robot, pc
}

// wantClosed checks that both ends have the same account, which adds up.
func wantClosed(t *testing.T, pc, robot *host) {
	t.Helper()
	mirrors, exports := pc.node.Status().Mirrors, robot.node.Status().Exports
	for _, m := range mirrors {
		a := m.Accounts
		if a.Offered == 0 || a.Offered != a.Settled() || a.InFlight != 0 {
			t.Errorf("%s: the account does not add up: %+v, settled %d", m.Name, a, a.Settled())
		}
		for _, e := range exports {
			if e.Peer == pc.name && e.Channel == m.Channel && e.Accounts != a {
				t.Errorf("%s: got %+v at the origin, %+v at the mirror", m.Name, e.Accounts, a)
			}
		}
	}
}
