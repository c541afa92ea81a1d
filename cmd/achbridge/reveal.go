package main

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"achbridge/bridge"
	"achbridge/discovery"
)

// askedFor is how long the node dials a host again whose channels somebody asked
// for.
const askedFor = 30 * time.Second

// reveal gets the channels that announcements have no room for: a host tells all
// of them on a link, so the node links to those that somebody asks about. Safe for
// concurrent use.
type reveal struct {
	node  *bridge.Node
	found func() []discovery.Peer // members
	dial  func()                  // gives the node its peers anew

	mu    sync.Mutex
	asked map[string]time.Time // by host
}

// unlisted is a host and how many of its channels cannot be listed.
type unlisted struct {
	Host  string `json:"host"`
	Count int    `json:"count"` // 0: nobody knows
}

// look links to the hosts that a means, where that tells more, and waits for
// them, limit at most.
func (r *reveal) look(ctx context.Context, a address, limit time.Duration) {
	gaps := r.gaps(a)
	if len(gaps) == 0 {
		return
	}
	r.mu.Lock()
	for _, g := range gaps {
		r.asked[g.Host] = time.Now()
	}
	r.mu.Unlock()
	r.dial()
	until(ctx, limit, func() bool { return len(r.gaps(a)) == 0 })
}

// gaps are the hosts that a means which have channels that are not known.
func (r *reveal) gaps(a address) []unlisted {
	linked := r.node.Channels()
	list := []unlisted{}
	for _, p := range r.found() {
		tells := p.More == 0 && p.Node != ""
		known := func(c bridge.RemoteChannel) bool {
			return c.Node == p.Node || slices.ContainsFunc(p.Addrs, func(addr netip.AddrPort) bool { return slices.Contains(c.Addrs, addr.String()) })
		}
		if a.matchesHost(p.Host) && !tells && !slices.ContainsFunc(linked, known) {
			list = append(list, unlisted{p.Host, p.More})
		}
	}
	return list
}

// wants reports whether somebody has asked for the channels of a host.
func (r *reveal) wants(host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.asked[host]
	if ok && time.Since(at) > askedFor {
		delete(r.asked, host)
		return false
	}
	return ok
}
