package discovery

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grandcat/zeroconf"
)

// AchdChannel is a channel that a host with achd announces through avahi, as an instance of _ach._tcp. Announcements are
// not authenticated.
type AchdChannel struct {
	Channel string
	Host    string // mDNS name of the host, such as robot.local
	Addr    netip.AddrPort
}

// maxAchdChannels is the maximum number of channels that one search returns.
const maxAchdChannels = 4096

// BrowseAchd searches once for channels of hosts with achd, over IPv4, on the named interfaces or, without names, on all.
// It returns them sorted by host and channel, after timeout or 0.7 s after the last new answer. It omits invalid channel
// names. An empty list is not an error. It is an error if this host has no network to search on.
func BrowseAchd(ctx context.Context, interfaces []string, timeout time.Duration) ([]AchdChannel, error) {
	links, err := searchLinks(interfaces)
	if err != nil {
		return nil, err
	}
	var ifaces []net.Interface
	for _, l := range links {
		ifaces = append(ifaces, l.iface)
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	entries, err := browseAchd(ctx, ifaces)
	if err != nil {
		return nil, err
	}
	var list []AchdChannel
	quietTimer := time.AfterFunc(timeout, cancel)
	defer quietTimer.Stop()
	for e := range entries { // closed when ctx ends
		c, ok := parseAchdEntry(e)
		if ok && len(list) < maxAchdChannels {
			list = append(list, c)
			quietTimer.Reset(quiet)
		}
	}
	slices.SortFunc(list, func(a, b AchdChannel) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), a.Addr.Compare(b.Addr), strings.Compare(a.Channel, b.Channel))
	})
	return slices.Compact(list), outer.Err()
}

// groupsPerSocket is how many IPv4 multicast groups Linux lets a socket join by default (net.ipv4.igmp_max_memberships).
const groupsPerSocket = 20

// browseAchd sends queries on all interfaces and returns a channel with the answers, which is closed when ctx ends. It
// starts one zeroconf resolver for each groupsPerSocket interfaces, since a resolver has one socket.
func browseAchd(ctx context.Context, ifaces []net.Interface) (<-chan *zeroconf.ServiceEntry, error) {
	all := make(chan *zeroconf.ServiceEntry)
	var resolvers sync.WaitGroup
	for group := range slices.Chunk(ifaces, groupsPerSocket) {
		resolver, err := zeroconf.NewResolver(zeroconf.SelectIPTraffic(zeroconf.IPv4), zeroconf.SelectIfaces(group))
		entries := make(chan *zeroconf.ServiceEntry)
		if err == nil {
			err = resolver.Browse(ctx, "_ach._tcp", "local.", entries)
		}
		if err != nil {
			return nil, err
		}
		resolvers.Go(func() {
			for e := range entries {
				select {
				case all <- e:
				case <-ctx.Done():
				}
			}
		})
	}
	go func() {
		resolvers.Wait()
		close(all)
	}()
	return all, nil
}

// parseAchdEntry parses an answer. ok is false if its names or address are invalid.
func parseAchdEntry(e *zeroconf.ServiceEntry) (c AchdChannel, ok bool) {
	channel, err := fromLabel(e.Instance)
	c = AchdChannel{Channel: channel, Host: strings.TrimSuffix(e.HostName, ".")}
	if err != nil || checkName(c.Host) != nil || e.Port < 1 || e.Port > 0xffff || len(e.AddrIPv4) == 0 {
		return c, false
	}
	at, ok := netip.AddrFromSlice(e.AddrIPv4[0])
	c.Addr = netip.AddrPortFrom(at.Unmap(), uint16(e.Port))
	return c, ok && (c.Addr.Addr().IsGlobalUnicast() || c.Addr.Addr().IsLinkLocalUnicast())
}
