package session

import (
	"net"
	"net/netip"
)

// AddrOf returns the IP address of addr without its port, or zero if addr is no IP address.
func AddrOf(addr net.Addr) netip.Addr {
	if udp, ok := addr.(*net.UDPAddr); ok {
		return udp.AddrPort().Addr().Unmap()
	}
	ip, _ := netip.ParseAddr(HostOf(addr))
	return ip.Unmap()
}

// HostOf returns the address without its port.
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

// SameAddr reports whether two addresses are equal. Each may be nil. It does not allocate for
// UDP addresses.
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
