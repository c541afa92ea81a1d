package transport

import (
	"net"
	"net/netip"
)

// addrOf is an IP address without its port; zero if addr is no IP address.
func addrOf(addr net.Addr) netip.Addr {
	if udp, ok := addr.(*net.UDPAddr); ok {
		return udp.AddrPort().Addr().Unmap()
	}
	ip, _ := netip.ParseAddr(hostPart(addr))
	return ip.Unmap()
}

// hostPart is the address without its port.
func hostPart(addr net.Addr) string {
	if udp, ok := addr.(*net.UDPAddr); ok {
		return udp.AddrPort().Addr().Unmap().String()
	}
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return host
}

// sameAddr compares addresses, each of which may be nil, without allocating if they
// are UDP's.
func sameAddr(a, b net.Addr) bool {
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
