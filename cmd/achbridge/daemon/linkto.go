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

// askedFor is the time for which the node keeps dialling a host after a request for
// its channels.
const askedFor = 30 * time.Second

// linkTo gets the channels that do not fit into announcements. A host lists all its
// channels on a link, so linkTo has the node dial the hosts that users ask about. It
// is safe for concurrent use.
type linkTo struct {
	node    *bridge.Node
	members func() []discovery.Peer // returns the members of our networks
	atHub   func() []string         // returns the hosts at the hub
	dial    func()                  // passes the peers to the node again

	mu          sync.Mutex
	requestedAt map[string]time.Time // time of the last request, by host
}

// linkMatching links to the hosts that match a and have channels that are not known yet. It
// waits for the links, for at most limit.
func (r *linkTo) linkMatching(ctx context.Context, a rule.Address, limit time.Duration) {
	gaps := slices.DeleteFunc(r.gaps(a), func(g api.Unlisted) bool { return g.Far != "" })
	if len(gaps) == 0 {
		return
	}
	r.mu.Lock()
	maps.DeleteFunc(r.requestedAt, func(_ string, at time.Time) bool { return time.Since(at) > askedFor })
	for _, g := range gaps {
		r.requestedAt[g.Host] = time.Now()
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r.dial()
	r.node.Await(ctx, func() bool {
		return !slices.ContainsFunc(r.gaps(a), func(g api.Unlisted) bool { return g.Far == "" })
	})
}

// gaps returns the hosts that match a and may have channels that are not known.
func (r *linkTo) gaps(a rule.Address) []api.Unlisted {
	linked := r.node.Channels()
	list := []api.Unlisted{}
	for _, p := range r.members() {
		isComplete := p.More == 0 && p.Node != ""
		known := func(c status.RemoteChannel) bool {
			return c.Node == p.Node || slices.ContainsFunc(p.Addrs, func(addr netip.AddrPort) bool { return slices.Contains(c.Addrs, addr.String()) })
		}
		if !a.MatchesHost(p.Host) || slices.ContainsFunc(linked, known) {
			continue
		}
		if far, fix, ok := config.FarText(p); ok {
			list = append(list, api.Unlisted{Host: p.Host, Count: p.More, Far: far + "; " + fix})
		} else if !isComplete {
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

// wants reports whether a user asked for the channels of a host within askedFor.
func (r *linkTo) wants(host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.requestedAt[host]
	return ok && time.Since(at) <= askedFor
}
