package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	resolveTimeout = 5 * time.Second
	resolveAgain   = 30 * time.Second // time between two lookups of a name, and of a zone whose answers have no TTL
	resolveRetry   = 2 * time.Second  // time to the next attempt after a failure
)

// Static is a peer that the user has listed. ParseStatic returns one.
type Static struct {
	// Transport is the name of the transport that the user prefers for the link with the peer. It also applies to an
	// announcement of the same node.
	Transport string

	text string // what the user wrote
	name string // name or address to look up
	host string // Peer.Host until mDNS finds the peer
	port uint16
}

// String returns what the user wrote.
func (s Static) String() string { return s.text }

// ParseStatic parses HOST:PORT, HOST (port 8076), ADDRESS, [ADDRESS]:PORT or an IPv6 address without brackets. An IPv6
// link-local address needs its zone, as in fe80::1%eth0. An error begins with the value, in quotes.
func ParseStatic(value string) (Static, error) {
	s := Static{text: value, port: DefaultPort}
	host, port := splitPort(value)
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return Static{}, staticError(value, fmt.Sprintf("port %q is not a number from 1 to 65535", port))
		}
		s.port = uint16(n)
	}
	if err := checkStaticHost(host); err != nil {
		return Static{}, staticError(value, err.Error())
	}
	s.name = host
	s.host = HostName(strings.TrimSuffix(host, "."))
	return s, nil
}

func staticError(value, why string) error {
	return fmt.Errorf("%q: %s; write HOST:PORT, for example robot:%d, 192.168.1.10:%[3]d or [fe80::1%%eth0]:%[3]d",
		value, why, DefaultPort)
}

// splitPort separates host and port. A value with two colons and no brackets is an IPv6 address without port.
func splitPort(value string) (host, port string) {
	if h, p, err := net.SplitHostPort(value); err == nil {
		if p == "" {
			p = "''" // "robot:" has a colon but no port
		}
		return h, p
	}
	if inner, ok := strings.CutPrefix(value, "["); ok && strings.HasSuffix(inner, "]") {
		return strings.TrimSuffix(inner, "]"), ""
	}
	return value, ""
}

func checkStaticHost(host string) error {
	if host == "" {
		return errors.New("no host")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "" {
			return errors.New("a link-local address needs its interface, as in fe80::1%eth0")
		}
		if a.IsUnspecified() || a.IsMulticast() {
			return errors.New("not the address of a host")
		}
		return nil
	}
	if len(host) > 253 {
		return errors.New("the name is longer than 253 bytes")
	}
	for _, l := range strings.Split(strings.TrimSuffix(host, "."), ".") {
		if checkName(l) != nil || strings.HasPrefix(l, "-") {
			return fmt.Errorf("%q is neither a host name nor an address", host)
		}
	}
	return nil
}

// resolve returns the peer's addresses, at most maxPeerAddrs.
func (s Static) resolve(ctx context.Context) ([]netip.AddrPort, error) {
	if a, err := netip.ParseAddr(s.name); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(a.Unmap(), s.port)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", s.name)
	if err != nil {
		return nil, fmt.Errorf("peer %s: %w", s.text, err)
	}
	var addrs []netip.AddrPort
	for _, ip := range ips {
		if a := netip.AddrPortFrom(ip.Unmap(), s.port); !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	return addrs[:min(len(addrs), maxPeerAddrs)], nil
}

// follow resolves the peer every resolveAgain until ctx ends, and also when the channel that lookUpRequests returned is
// closed. It calls update with the addresses, or with an empty list after a failure. It logs the first of several failures.
func (s Static) follow(ctx context.Context, log *slog.Logger, lookUpRequests func() <-chan struct{}, update func([]netip.AddrPort)) {
	failing := false
	for {
		requested := lookUpRequests()
		addrs, err := s.resolve(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			log.Warn("static peer cannot be resolved, will try again", "peer", s.text, "err", err)
		}
		failing = err != nil
		update(addrs)
		wait := resolveAgain
		if failing {
			wait = resolveRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-requested:
		}
	}
}
