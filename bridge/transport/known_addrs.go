package transport

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"achbridge/bridge/transport/session"
)

// knownAddrs are the addresses where members are expected: those that the operator
// has listed, and those with a session within the last day. Some places are kept for
// handshakes with them. A restart forgets them.
type knownAddrs struct {
	mu     sync.Mutex
	listed map[netip.Addr]bool
	linked map[netip.Addr]linkedAt
}

// linkedAt records the sessions with one address.
type linkedAt struct {
	live int
	last time.Time // when one began or ended
}

const (
	knownFor      = 24 * time.Hour
	maxKnownAddrs = 1024
)

// Expect replaces the list of addresses, whatever their ports, for whose handshakes the
// endpoint keeps places when strangers take all others. It also keeps places for
// addresses that had a session within a day.
func (e *Endpoint) Expect(listed []Addrs) { e.knownAddrs.list(listed) }

// list replaces what the operator has listed.
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

// begins notes a new session with an address.
func (a *knownAddrs) begins(addr netip.Addr) { a.note(addr, 1) }

// ends notes that a session with addr has ended. last is the address of its peer at the end.
func (a *knownAddrs) ends(addr, last netip.Addr) {
	a.note(addr, -1)
	if last != addr {
		a.note(last, 0)
	}
}

// note ignores peers without an IP address: those behind a hub.
func (a *knownAddrs) note(addr netip.Addr, more int) {
	if !addr.IsValid() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.linked == nil {
		a.linked = make(map[netip.Addr]linkedAt)
	}
	a.linked[addr] = linkedAt{a.linked[addr].live + more, time.Now()}
	if len(a.linked) > maxKnownAddrs {
		a.forget()
	}
}

// forget drops the address whose last session ended longest ago. Needs mu.
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

// live reports whether there is a session with an address.
func (a *knownAddrs) live(addr netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.linked[addr].live > 0
}
