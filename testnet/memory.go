package testnet

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Network is an in-memory network of hosts for tests, best in a
// testing/synctest bubble: there its times are exact and, for the same seed
// and the same sends, always the same. It starts no goroutines except those of its
// timer. It is safe for concurrent use.
type Network struct {
	mu       sync.Mutex
	start    time.Time
	mesh     *Mesh[datagram]
	hosts    []*Host
	timer    *time.Timer
	armedFor time.Duration // when timer fires; 0 means never
	taps     []func(Event)
}

// datagram is a UDP packet in flight.
type datagram struct {
	from, to netip.AddrPort
	data     []byte
}

// Event is what happened to one packet at one time.
type Event struct {
	At       time.Duration // since the network was created
	From, To netip.AddrPort
	Payload  []byte // must not be kept or changed
	What     What
	Sent     Sent // the prediction for the packet, if What is WhatSent
}

// What is the kind of an event.
type What uint8

const (
	WhatSent      What = iota // passed to the link; see Event.Sent
	WhatArrived               // stored in the receiving socket's buffer
	WhatNobody                // arrived at a port without a socket
	WhatDiscarded             // arrived at a socket whose buffer was full
)

// NewNetwork returns a network without hosts, whose time begins now.
func NewNetwork(seed uint64) *Network {
	return &Network{start: time.Now(), mesh: NewMesh[datagram](seed)}
}

// Host adds a host. Egress applies to all packets that its sockets send to other
// hosts. Packets to the host itself arrive at once. Host panics if egress.Check
// fails.
func (n *Network) Host(name string, egress Params) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	number := n.mesh.AddHost(name, egress)
	h := &Host{
		net: n, name: name, number: number, sockets: map[uint16][2]*Conn{}, nextPort: 49152,
		addr4: HostAddr4(number), addr6: HostAddr6(number),
	}
	n.hosts = append(n.hosts, h)
	return h
}

// HostAddr4 returns the IPv4 address of host number i, from 10.80.76.1 for host 0.
func HostAddr4(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 80, 76 + byte((i+1)>>8), byte(i + 1)})
}

// HostAddr6 returns the IPv6 address of host number i, from fd00:8076::1 for host 0.
func HostAddr6(i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 0, 0x80, 0x76, 14: byte((i + 1) >> 8), 15: byte(i + 1)})
}

// Change changes the parameters of a target ("robot", "robot>pc" or "" for all)
// that text has. Packets may be in flight, see Link.Set.
func (n *Network) Change(target, text string) error {
	return n.edit(func(now time.Duration) error { return n.mesh.Change(now, target, text) })
}

// Set replaces all parameters of a target.
func (n *Network) Set(target string, p Params) error {
	return n.edit(func(now time.Duration) error { return n.mesh.Set(now, target, p) })
}

func (n *Network) edit(change func(now time.Duration) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	n.deliver(now)
	err := change(now)
	n.arm(now)
	return err
}

// Settings returns the current parameters and counts of all links.
func (n *Network) Settings() []Setting {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mesh.Settings()
}

// Tap calls f for each event from now on, in order. f must not call methods of the
// network or its sockets.
func (n *Network) Tap(f func(Event)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.taps = append(n.taps, f)
}

func (n *Network) now() time.Duration { return time.Since(n.start) }

// send passes one datagram to the links. The caller must hold no lock.
func (n *Network) send(from *Host, d datagram) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	n.deliver(now)
	to := n.hostAt(d.to.Addr())
	switch {
	case to == nil:
		n.emit(now, WhatSent, d, Sent{Outcome: Forgotten, Departs: now})
	case to == from:
		n.emit(now, WhatSent, d, Sent{Departs: now, Arrives: now})
		n.arrive(now, to, d)
	default:
		overhead := Overhead4
		if d.to.Addr().Is6() {
			overhead = Overhead6
		}
		sent := n.mesh.Send(now, from.number, to.number, len(d.data)+overhead, d)
		n.emit(now, WhatSent, d, sent)
		n.deliver(now)
	}
	n.arm(now)
}

func (n *Network) hostAt(a netip.Addr) *Host {
	for _, h := range n.hosts {
		if a == h.addr4 || a == h.addr6 {
			return h
		}
	}
	return nil
}

// deliver passes all datagrams that have arrived by now to their sockets.
func (n *Network) deliver(now time.Duration) {
	for {
		a, ok := n.mesh.Receive(now)
		if !ok {
			return
		}
		n.arrive(now, n.hosts[a.To], a.Payload)
	}
}

func (n *Network) arrive(now time.Duration, h *Host, d datagram) {
	what := WhatNobody
	if c := h.sockets[d.to.Port()][family(d.to.Addr())]; c != nil {
		what = c.receive(d)
	}
	n.emit(now, what, d, Sent{})
}

func (n *Network) emit(now time.Duration, what What, d datagram, sent Sent) {
	for _, f := range n.taps {
		f(Event{At: now, From: d.from, To: d.to, Payload: d.data, What: what, Sent: sent})
	}
}

// arm sets the timer to the next arrival.
func (n *Network) arm(now time.Duration) {
	at, ok := n.mesh.Next()
	if !ok || n.armedFor == at && at > now {
		return
	}
	n.armedFor = at
	if n.timer == nil {
		n.timer = time.AfterFunc(at-now, n.tick)
		return
	}
	n.timer.Reset(at - now)
}

func (n *Network) tick() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.armedFor = 0
	now := n.now()
	n.deliver(now)
	n.arm(now)
}

// Host is one host of a Network.
type Host struct {
	net      *Network
	name     string
	number   int
	addr4    netip.Addr
	addr6    netip.Addr
	sockets  map[uint16][2]*Conn // indexed by port and family; guarded by net.mu
	nextPort uint16
}

// Listen opens an IPv4 socket. Port 0 chooses a free port.
func (h *Host) Listen(port int) (*Conn, error) { return h.listen("udp4", h.addr4, port) }

// Listen6 opens an IPv6 socket. Port 0 chooses a free port.
func (h *Host) Listen6(port int) (*Conn, error) { return h.listen("udp6", h.addr6, port) }

func (h *Host) listen(network string, addr netip.Addr, port int) (*Conn, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	fail := func(cause string) error {
		return &net.OpError{Op: "listen", Net: network, Err: fmt.Errorf("host %s, port %d: %s", h.name, port, cause)}
	}
	if port < 0 || port > 65535 {
		return nil, fail("not a port; right is 0 to 65535")
	}
	for port == 0 {
		if _, used := h.sockets[h.nextPort]; !used {
			port = int(h.nextPort)
		}
		h.nextPort = max(h.nextPort+1, 49152)
	}
	pair := h.sockets[uint16(port)]
	if pair[family(addr)] != nil {
		return nil, fail("address already in use")
	}
	c := newConn(h, network, netip.AddrPortFrom(addr, uint16(port)))
	pair[family(addr)] = c
	h.sockets[uint16(port)] = pair
	return c, nil
}

func family(a netip.Addr) int {
	if a.Is6() {
		return 1
	}
	return 0
}
