package config

import (
	"fmt"
	"net/netip"
	"slices"

	"achbridge/discovery"
)

// FarText returns the place where a host that may not be dialled was announced, and the fix. ok
// is false if p is not such a host.
func FarText(p discovery.Peer) (text, fix string, ok bool) {
	near := func(a netip.AddrPort) bool { return a.Addr() == p.By || !a.Addr().IsLinkLocalUnicast() }
	if len(p.Far) == 0 || slices.ContainsFunc(p.Addrs, near) {
		return "", "", false // a link-local address may belong to another network interface of its host
	}
	at := p.Far[0].Addr().String()
	return fmt.Sprintf("%s is announced at %s, which is neither where the announcement came from (%s) nor on a network of this host: it is not dialled",
		p.Host, at, p.By), "if that is the host: --peer " + at, true
}

// ProbeText returns the result of a multicast test on one interface, as text.
func ProbeText(p discovery.Probe) string {
	family := "IPv4"
	if p.IPv6 {
		family = "IPv6"
	}
	text := p.Interface + " (" + family + ")"
	if p.Err != nil {
		text += ": " + p.Err.Error()
	}
	return text
}
