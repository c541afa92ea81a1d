package hub

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// hereEvery is how often a host says that it is connected; one that has not for hereLasts is gone.
	hereEvery = 10 * time.Second
	hereLasts = 25 * time.Second
	// hereAtMost is the shortest time between two of them.
	hereAtMost = time.Second
	// maxHosts limits how many hosts are known.
	maxHosts = 10000
)

// presence is who is connected to the hub.
type presence struct {
	client *Client
	due    chan struct{} // something new was heard: say again that this host is here

	mu      sync.Mutex
	hosts   map[string]neighbour
	changed chan struct{}
}

type neighbour struct {
	life  [8]byte
	heard time.Time
}

func (p *presence) init(c *Client) {
	p.client, p.due = c, make(chan struct{}, 1)
	p.hosts, p.changed = map[string]neighbour{}, make(chan struct{})
}

// Hosts calls f with the names of the other hosts at the hub, sorted, now and whenever they change, until
// ctx ends. Who is not heard for 25 s is not there any more; a lost connection alone changes nothing.
func (c *Client) Hosts(ctx context.Context, f func(hosts []string)) error {
	p := &c.presence
	for {
		p.mu.Lock()
		hosts, changed := make([]string, 0, len(p.hosts)), p.changed
		for host := range p.hosts {
			hosts = append(hosts, host)
		}
		p.mu.Unlock()
		slices.Sort(hosts)
		f(hosts)
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take hears of a host.
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
		if there && known.life == h.Life {
			delete(p.hosts, host)
			p.tell()
		}
		return
	case !there && len(p.hosts) >= maxHosts:
		return
	}
	p.hosts[host] = neighbour{life: h.Life, heard: time.Now()}
	if !there {
		p.tell()
	}
	if !there || known.life != h.Life {
		p.announce()
	}
}

// tell wakes who calls Hosts. Needs p.mu.
func (p *presence) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// announce has this host say that it is here, soon.
func (p *presence) announce() {
	select {
	case p.due <- struct{}{}:
	default:
	}
}

// run says that this host is here, and forgets who is not, until ctx ends.
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
			p.say(l)
		}
	}
}

// say tells all others that this host is here.
func (p *presence) say(l *line) {
	_ = l.small.nc.Publish(hereOf(p.client.credentials.Host), here{Life: p.client.life}.append(nil))
}

// connected begins on a new line. Who could not be heard until now gets his time anew.
func (p *presence) connected(l *line) {
	p.mu.Lock()
	now := time.Now()
	for host, n := range p.hosts {
		n.heard = now
		p.hosts[host] = n
	}
	p.mu.Unlock()
	p.say(l)
}

// forget removes who was not heard since.
func (p *presence) forget(since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.hosts)
	for host, n := range p.hosts {
		if n.heard.Before(since) {
			delete(p.hosts, host)
		}
	}
	if len(p.hosts) != before {
		p.tell()
	}
}

func (p *presence) goodbye(l *line) {
	_ = l.small.nc.Publish(hereOf(p.client.credentials.Host), here{Gone: true, Life: p.client.life}.append(nil))
}
