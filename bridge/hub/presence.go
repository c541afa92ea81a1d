package hub

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// hereEvery is the interval of presence messages. A host without any for hereLasts is gone.
	hereEvery = 10 * time.Second
	hereLasts = 25 * time.Second
	// hereAtMost is the shortest interval of presence messages.
	hereAtMost = time.Second
	// maxHosts limits the number of known hosts.
	maxHosts = 10000
)

// presence tracks the hosts that are connected to the hub.
type presence struct {
	client *Client
	due    chan struct{} // receives a value when this host must send its presence again

	mu      sync.Mutex
	hosts   map[string]hubPeer
	changed chan struct{}
}

type hubPeer struct {
	incarnation    [8]byte
	lastReceivedAt time.Time
}

func (p *presence) init(c *Client) {
	p.client, p.due = c, make(chan struct{}, 1)
	p.hosts, p.changed = map[string]hubPeer{}, make(chan struct{})
}

// Hosts calls f with the sorted names of the other hosts at the hub, now and after each change,
// until ctx ends. A host that is silent for 25 s is removed. The loss of the connection changes
// nothing by itself.
func (c *Client) Hosts(ctx context.Context, f func(hosts []string)) error {
	p := &c.presence
	for {
		p.mu.Lock()
		hosts, changed := slices.Sorted(maps.Keys(p.hosts)), p.changed
		p.mu.Unlock()
		f(hosts)
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take handles a presence message.
func (p *presence) take(m *nats.Msg) {
	host, err := HostOf(m.Subject)
	if err != nil || m.Subject != hereOf(host) || len(host) > maxHost || host == p.client.credentials.Host {
		return
	}
	h, err := parseHere(m.Data)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known, there := p.hosts[host]
	switch {
	case h.Gone:
		if there && known.incarnation == h.Incarnation {
			delete(p.hosts, host)
			p.notify()
		}
		return
	case !there && len(p.hosts) >= maxHosts:
		return
	}
	p.hosts[host] = hubPeer{incarnation: h.Incarnation, lastReceivedAt: time.Now()}
	if !there {
		p.notify()
	}
	if !there || known.incarnation != h.Incarnation {
		p.announce()
	}
}

// notify wakes the callers of Hosts. p.mu must be held.
func (p *presence) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// announce makes run send this host's presence soon.
func (p *presence) announce() {
	select {
	case p.due <- struct{}{}:
	default:
	}
}

// run sends this host's presence and removes silent hosts, until ctx ends.
func (p *presence) run(ctx context.Context) {
	tick := time.NewTicker(hereEvery)
	defer tick.Stop()
	var said time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-p.due:
			select {
			case <-ctx.Done():
				return
			case <-time.After(hereAtMost - time.Since(said)):
			}
		}
		if l, _ := p.client.current(); l != nil {
			said = time.Now()
			p.forget(said.Add(-hereLasts))
			p.say(l, here{})
		}
	}
}

// say sends this host's presence, or that it leaves, to all other hosts.
func (p *presence) say(l *connPair, h here) {
	h.Incarnation = p.client.incarnation
	_ = l.small.nc.Publish(hereOf(p.client.credentials.Host), h.append(nil))
}

// connected restarts the timeouts of all hosts after a reconnect, since no presence
// arrived meanwhile. It sends this host's presence on l.
func (p *presence) connected(l *connPair) {
	p.mu.Lock()
	now := time.Now()
	for host, n := range p.hosts {
		n.lastReceivedAt = now
		p.hosts[host] = n
	}
	p.mu.Unlock()
	p.say(l, here{})
}

// forget removes the hosts without a presence message after since.
func (p *presence) forget(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.hosts)
	maps.DeleteFunc(p.hosts, func(_ string, n hubPeer) bool { return n.lastReceivedAt.Before(since) })
	if len(p.hosts) != before {
		p.notify()
	}
}
