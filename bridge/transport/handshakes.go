package transport

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"achbridge/bridge/transport/session"
)

// handshakes limits the unfinished handshakes with peers that dialled us. There are two
// stages, each with a limit: greetings, before the peer has sent a complete ClientHello, and
// meetings, from then until the session. A new handshake is never refused. When a stage is
// full, the source with the most handshakes loses the one without progress for longest. So
// attackers cannot keep a peer out, if its handshake takes less time than attackers need for
// maxHandshakes handshakes.
//
// Sources are compared by network first, a /64 of IPv6 or a /24 of IPv4, then by address. So
// twenty robots behind one address are not dropped in favour of a network full of unknown
// peers with one address each.
//
// A few additional places are reserved for known addresses. Their handshakes are not dropped.
type handshakes struct {
	isKnown func(netip.Addr) bool // reports whether an address is known
	ousted  func()                // called for each handshake that is dropped
	calm    int                   // greetings have no time limit while fewer are pending than this

	mu      sync.Mutex
	pending []*handshake // in the order of their last progress
}

const (
	maxGreetings  = 128
	maxHandshakes = 128
	// greetingTimeout is the time limit for the peer's ClientHello, which is one or two packets.
	greetingTimeout = time.Second

	maxKept = 16
	// keptEach is the maximum number of reserved places that one address may use. So unknown peers that
	// share an address with a member, behind a NAT, leave some to others.
	keptEach = 4
)

// handshake is one unfinished handshake. handshakes.mu guards its mutable fields.
type handshake struct {
	all    *handshakes
	addr   netip.Addr // zero until the peer has proved it
	net    netip.Prefix
	end    func() // starts the end of the handshake and does not wait for it
	isKept bool
	at     session.Stage
	timer  *time.Timer // calls late when the greeting is too old
}

// Enter adds a handshake. It may call the end function of another one, with mu held.
func (a *handshakes) Enter(addr netip.Addr, end func()) session.Handshake {
	known := addr.IsValid() && a.isKnown(addr)
	h := &handshake{all: a, addr: addr, net: networkAt(addr), end: end}
	a.mu.Lock()
	defer a.mu.Unlock()
	h.isKept = known && a.hasKept(addr)
	h.timer = time.AfterFunc(greetingTimeout, h.late)
	a.pending = append(a.pending, h)
	a.makeRoom(h)
	return h
}

// networkAt returns the network that contains an address.
func networkAt(addr netip.Addr) netip.Prefix {
	bits := 64
	if addr.Is4() {
		bits = 24
	}
	network, _ := addr.Prefix(bits) // the zero Prefix for the zero Addr
	return network
}

// hasKept reports whether a reserved place is free for a known address. mu must be held.
func (a *handshakes) hasKept(addr netip.Addr) bool {
	all, its := 0, 0
	for _, h := range a.pending {
		if h.isKept {
			all++
			if h.addr == addr {
				its++
			}
		}
	}
	return all < maxKept && its < keptEach
}

// makeRoom drops another handshake if there are too many at h's stage. mu must be held.
func (a *handshakes) makeRoom(h *handshake) {
	if h.isKept {
		return
	}
	var others []*handshake
	networks, addrs := make(map[netip.Prefix]int), make(map[netip.Addr]int)
	for _, o := range a.pending {
		if o.isKept || (o.at == session.AtGreeting) != (h.at == session.AtGreeting) {
			continue
		}
		networks[o.net]++
		addrs[o.addr]++
		if o != h {
			others = append(others, o)
		}
	}
	most := maxHandshakes
	if h.at == session.AtGreeting {
		most = maxGreetings
	}
	if len(others) < most {
		return
	}
	first := slices.MaxFunc(others, func(x, y *handshake) int { // MaxFunc returns the first of equals, which is the oldest
		return cmp.Or(cmp.Compare(y.at, x.at), cmp.Compare(networks[x.net], networks[y.net]), cmp.Compare(addrs[x.addr], addrs[y.addr]))
	})
	a.remove(first)
	a.ousted()
	first.end()
}

// Reached records the stage that h has reached.
func (h *handshake) Reached(at session.Stage) {
	a := h.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.at >= at {
		return
	}
	a.remove(h)
	h.at = at
	a.pending = append(a.pending, h)
	a.makeRoom(h)
}

// Leave removes h, whether it became a session or failed.
func (h *handshake) Leave() {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.all.remove(h)
}

// remove removes h from pending and stops its timer. mu must be held.
func (a *handshakes) remove(h *handshake) {
	if i := slices.Index(a.pending, h); i >= 0 {
		a.pending = slices.Delete(a.pending, i, i+1)
	}
	h.at = session.AtEnd
	h.timer.Stop()
}

// late ends a greeting that takes too long, if calm or more handshakes are pending.
func (h *handshake) late() {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	if h.at == session.AtGreeting && len(h.all.pending) >= h.all.calm {
		h.end()
	}
}

// AtLeast reports whether n or more are pending.
func (a *handshakes) AtLeast(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.pending) >= n
}
