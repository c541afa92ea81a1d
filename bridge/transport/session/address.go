package session

import (
	"net"
	"net/netip"
)

// AddrOf is an IP address without its port; zero if addr is no IP address.
func AddrOf(addr net.Addr) netip.Addr {
	if udp, ok := addr.(*net.UDPAddr); ok {
		return udp.AddrPort().Addr().Unmap()
	}
	ip, _ := netip.ParseAddr(HostOf(addr))
	return ip.Unmap()
}

// HostOf is the address without its port.
func HostOf(addr net.Addr) string {
	if udp, ok := addr.(*net.UDPAddr); ok {
		return udp.AddrPort().Addr().Unmap().String()
	}
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return host
}

// SameAddr compares addresses, each of which may be nil, without allocating if they
// are UDP's.
func SameAddr(a, b net.Addr) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	x, isUDP := a.(*net.UDPAddr)
	y, areUDP := b.(*net.UDPAddr)
	if isUDP && areUDP {
		return x.Port == y.Port && x.IP.Equal(y.IP) && x.Zone == y.Zone
	}
	return a.String() == b.String()
}
