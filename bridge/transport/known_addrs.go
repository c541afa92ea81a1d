package transport

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"achbridge/bridge/transport/session"
)

// knownAddrs has the addresses at which members are expected: those that the operator has
// listed, and those with a session within the last day. Some places are reserved for their
// handshakes. A restart forgets the addresses of sessions.
type knownAddrs struct {
	mu     sync.Mutex
	listed map[netip.Addr]bool
	linked map[netip.Addr]linkedAt
}

// linkedAt records the sessions with one address.
type linkedAt struct {
	live int       // number of open sessions
	last time.Time // when a session last began or ended
}

const (
	knownFor      = 24 * time.Hour
	maxKnownAddrs = 1024
)

// Expect replaces the list of addresses, regardless of their ports, for whose handshakes the
// endpoint reserves places. Unknown peers cannot use these. The endpoint also reserves places
// for addresses that had a session within a day.
func (e *Endpoint) Expect(listed []Addrs) { e.knownAddrs.list(listed) }

// list replaces the addresses that the operator has listed.
func (a *knownAddrs) list(addrs []Addrs) {
	listed := make(map[netip.Addr]bool)
	for _, at := range addrs {
		for _, addr := range []net.Addr{at.QUIC, at.SCTP} {
			if addr != nil {
				listed[session.AddrOf(addr)] = true
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listed = listed
}

// begins records a new session with an address.
func (a *knownAddrs) begins(addr netip.Addr) { a.note(addr, 1) }

// ends records that a session which began with addr has ended. last is the peer's address at
// the end.
func (a *knownAddrs) ends(addr, last netip.Addr) {
	a.note(addr, -1)
	if last != addr {
		a.note(last, 0)
	}
}

// note adds delta to the number of open sessions with addr, and records the time of the last use. It
// ignores peers without an IP address, which are behind a hub.
func (a *knownAddrs) note(addr netip.Addr, delta int) {
	if !addr.IsValid() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.linked == nil {
		a.linked = make(map[netip.Addr]linkedAt)
	}
	a.linked[addr] = linkedAt{a.linked[addr].live + delta, time.Now()}
	if len(a.linked) > maxKnownAddrs {
		a.forget()
	}
}

// forget removes the address whose last session ended longest ago. mu must be held.
func (a *knownAddrs) forget() {
	var first netip.Addr
	for addr, at := range a.linked {
		if oldest, ok := a.linked[first]; at.live == 0 && (!ok || at.last.Before(oldest.last)) {
			first = addr
		}
	}
	delete(a.linked, first)
}

// has reports whether an address is known.
func (a *knownAddrs) has(addr netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listed[addr] {
		return true
	}
	at, ok := a.linked[addr]
	return ok && (at.live > 0 || time.Since(at.last) <= knownFor)
}

// live reports whether there is an open session with an address.
func (a *knownAddrs) live(addr netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.linked[addr].live > 0
}
