package discovery

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// achdSearchTime is the timeout of a search for the address of a host with achd.
	achdSearchTime = 2 * time.Second
	// achdSearchEvery is the time for which the result of a search is used, since many channels of a host may be dialled at once.
	achdSearchEvery = 10 * time.Second
)

// AchdHosts looks up the addresses of hosts with achd by their mDNS names, which BrowseAchd returns too. The system's resolver knows
// such names only with nss-mdns. Safe for concurrent use.
type AchdHosts struct {
	browse func(context.Context) ([]AchdChannel, error)

	mu         sync.Mutex // also held during a search, so that other callers wait for its result
	channels   []AchdChannel
	searchedAt time.Time
}

// NewAchdHosts returns AchdHosts that search on the named interfaces or, without names, on all.
func NewAchdHosts(interfaces []string) *AchdHosts {
	return &AchdHosts{browse: func(ctx context.Context) ([]AchdChannel, error) { return BrowseAchd(ctx, interfaces, achdSearchTime) }}
}

// Addr returns the address of the host with an mDNS name such as robot.local. ok is false for other names, and if no such
// host announces a channel. Addr blocks for up to 2 s.
func (a *AchdHosts) Addr(ctx context.Context, name string) (addr netip.Addr, ok bool) {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if !strings.HasSuffix(name, "."+domain) {
		return addr, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.searchedAt.IsZero() || time.Since(a.searchedAt) >= achdSearchEvery {
		found, err := a.browse(ctx)
		if err != nil {
			return addr, false
		}
		a.channels, a.searchedAt = found, time.Now()
	}
	for _, c := range a.channels {
		if strings.EqualFold(c.Host, name) {
			return c.Addr.Addr(), true
		}
	}
	return addr, false
}
