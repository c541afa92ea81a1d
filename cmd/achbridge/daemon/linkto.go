package daemon

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"achbridge/bridge"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/discovery"
)

// askedFor is how long the node dials a host again whose channels somebody asked
// for.
const askedFor = 30 * time.Second

// linkTo gets the channels that announcements have no room for: a host tells all
// of them on a link, so the node links to those that somebody asks about. Safe for
// concurrent use.
type linkTo struct {
	node  *bridge.Node
	found func() []discovery.Peer // members
	atHub func() []string         // hosts at the hub
	dial  func()                  // gives the node its peers anew

	mu    sync.Mutex
	asked map[string]time.Time // by host
}

// look links to the hosts that a means, where that tells more, and waits for
// them, limit at most.
func (r *linkTo) look(ctx context.Context, a rule.Address, limit time.Duration) {
	gaps := slices.DeleteFunc(r.gaps(a), func(g api.Unlisted) bool { return g.Far != "" })
	if len(gaps) == 0 {
		return
	}
	r.mu.Lock()
	maps.DeleteFunc(r.asked, func(_ string, at time.Time) bool { return time.Since(at) > askedFor })
	for _, g := range gaps {
		r.asked[g.Host] = time.Now()
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r.dial()
	r.node.Await(ctx, func() bool {
		return !slices.ContainsFunc(r.gaps(a), func(g api.Unlisted) bool { return g.Far == "" })
	})
}

// gaps are the hosts that a means which have channels that are not known.
func (r *linkTo) gaps(a rule.Address) []api.Unlisted {
	linked := r.node.Channels()
	list := []api.Unlisted{}
	for _, p := range r.found() {
		tells := p.More == 0 && p.Node != ""
		known := func(c status.RemoteChannel) bool {
			return c.Node == p.Node || slices.ContainsFunc(p.Addrs, func(addr netip.AddrPort) bool { return slices.Contains(c.Addrs, addr.String()) })
		}
		if !a.MatchesHost(p.Host) || slices.ContainsFunc(linked, known) {
			continue
		}
		if far, cure, ok := config.FarText(p); ok {
			list = append(list, api.Unlisted{Host: p.Host, Count: p.More, Far: far + "; " + cure})
		} else if !tells {
			list = append(list, api.Unlisted{Host: p.Host, Count: p.More})
		}
	}
	for _, host := range r.atHub() {
		known := func(c status.RemoteChannel) bool { return c.Host == host }
		named := func(g api.Unlisted) bool { return g.Host == host }
		if a.MatchesHost(host) && !slices.ContainsFunc(linked, known) && !slices.ContainsFunc(list, named) {
			list = append(list, api.Unlisted{Host: host})
		}
	}
	return list
}

// wants reports whether somebody has asked for the channels of a host.
func (r *linkTo) wants(host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.asked[host]
	return ok && time.Since(at) <= askedFor
}
