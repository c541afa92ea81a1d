package quic

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/via"
)

// marks has the DSCP for the packets to each peer. All sessions share a socket, which knows the session of a packet only by its
// destination: the address and the port, since several peers may have one address. If two sessions have the same destination but
// different marks, as a session and its successor may, their packets are sent as best effort. Safe for concurrent use.
type marks struct {
	marking *session.Marking
	current atomic.Pointer[map[netip.AddrPort]via.DSCP] // derived from links; replaced, never modified; nil if empty

	mu    sync.Mutex
	links map[*link]mark // only sessions with a mark other than best effort
}

// mark is the DSCP of a session, and the address that its peer had when the DSCP was set.
type mark struct {
	to   netip.AddrPort
	dscp via.DSCP
}

func newMarks(marking *session.Marking) *marks {
	return &marks{marking: marking, links: make(map[*link]mark)}
}

// lookup returns the mark for a packet to an address. It does not allocate for UDP addresses.
func (m *marks) lookup(to net.Addr) via.DSCP {
	current := m.current.Load()
	if current == nil || m.marking.Err() != nil {
		return via.CS0
	}
	return (*current)[addrPort(to)]
}

// set sets the DSCP of the packets to the present address of l's peer, until the session ends or set is called again.
func (m *marks) set(l *link, d via.DSCP) {
	to := addrPort(l.RemoteAddr())
	if !to.IsValid() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before, isMarked := m.links[l]
	switch ended := l.conn.Context(); {
	case before == mark{to, d} || !isMarked && d == via.CS0:
		return
	case d == via.CS0 || ended.Err() != nil:
		delete(m.links, l)
	default:
		m.links[l] = mark{to, d}
		if !isMarked {
			context.AfterFunc(ended, func() { m.set(l, via.CS0) })
		}
	}
	m.publish()
}

// publish derives current from links. mu must be held.
func (m *marks) publish() {
	byAddr := make(map[netip.AddrPort]via.DSCP)
	for _, x := range m.links {
		if other, ok := byAddr[x.to]; ok && other != x.dscp {
			x.dscp = via.CS0
		}
		byAddr[x.to] = x.dscp
	}
	maps.DeleteFunc(byAddr, func(_ netip.AddrPort, d via.DSCP) bool { return d == via.CS0 })
	if len(byAddr) == 0 {
		m.current.Store(nil)
		return
	}
	m.current.Store(&byAddr)
}

// addrPort returns the address of a UDP socket, with IPv4 addresses unmapped from IPv6. It returns the zero AddrPort for others.
func addrPort(addr net.Addr) netip.AddrPort {
	udp, ok := addr.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	a := udp.AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
