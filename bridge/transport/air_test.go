package transport

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
)

// oneWay is the delay of the emulated network.
const oneWay = 5 * time.Millisecond

// forgedPort marks addresses that can be sent from and never reached.
const forgedPort = 666

// air is the emulated network between nodes.
type air struct {
	simnet.PerfectRouter

	mu               sync.Mutex
	dice             *rand.Rand
	loss             float64              // share of the packets that get lost
	missing          int                  // number of the packet to lose, counted from now; 0 means none
	rate             int                  // rate of the bottleneck before each node, bytes a second; 0 means no bottleneck
	busy             map[string]time.Time // time until which the bottleneck of a receiver has packets queued
	journey          map[arrival]time.Duration
	liar             string // address of the host that sends with the source address of victim
	victim           net.Addr
	inName, atVictim int                 // bytes
	nat              map[string]net.Addr // outside address for each inside address
}

// arrival is the receiver and the time of a packet after a bottleneck. Each one is unique.
type arrival struct {
	to string
	at time.Time
}

func newAir() *air {
	return &air{
		dice:    rand.New(rand.NewPCG(1, 2)),
		busy:    make(map[string]time.Time),
		journey: make(map[arrival]time.Duration),
		nat:     make(map[string]net.Addr),
	}
}

func (a *air) SendPacket(p simnet.Packet) error {
	a.mu.Lock()
	lost := a.dice.Float64() < a.loss
	if a.missing > 0 {
		a.missing--
		lost = lost || a.missing == 0
	}
	reachable := a.route(&p)
	a.mu.Unlock()
	if lost || !reachable || p.To.(*net.UDPAddr).Port == forgedPort {
		return nil
	}
	return a.PerfectRouter.SendPacket(p)
}

// lie gives all further packets of a node the source address of a victim.
func (a *air) lie(node, victim net.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.liar, a.victim = node.String(), victim
}

// lies returns the bytes that were sent with the victim's address, and to the victim.
func (a *air) lies() (from, to int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inName, a.atVictim
}

// route puts the outside address of the sender and the inside address of the receiver in a
// packet. It reports whether there is a receiver. mu must be held.
func (a *air) route(p *simnet.Packet) bool {
	if a.victim != nil {
		switch {
		case p.From.String() == a.liar:
			p.From = a.victim
			a.inName += len(p.Data)
		case p.To.String() == a.victim.String():
			a.atVictim += len(p.Data)
			return false
		}
	}
	if outside := a.nat[p.From.String()]; outside != nil {
		p.From = outside
	}
	to := p.To.String()
	for inside, outside := range a.nat {
		switch to {
		case inside:
			return false
		case outside.String():
			p.To = net.UDPAddrFromAddrPort(netip.MustParseAddrPort(inside))
		}
	}
	return true
}

// translate gives a node another address from now on, as a NAT does.
func (a *air) translate(inside, outside net.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nat[inside.String()] = outside
}

// outside returns the address of a node behind its NAT.
func (a *air) outside(inside net.Addr) net.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nat[inside.String()]
}

// lose sets the share of further packets that are lost; 1 means all.
func (a *air) lose(share float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loss = share
}

// loseOne loses the nth packet from now on; 1 means the next.
func (a *air) loseOne(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missing = n
}

// narrow adds a bottleneck with an unlimited queue before each node.
func (a *air) narrow(bytesPerSecond int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rate = bytesPerSecond
}

// delay returns the one-way delay of a packet that is sent now.
func (a *air) delay(p simnet.Packet) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rate == 0 {
		return oneWay
	}
	now, to := time.Now(), p.To.String()
	if a.busy[to].Before(now) {
		a.busy[to] = now
	}
	a.busy[to] = a.busy[to].Add(time.Duration(len(p.Data)) * time.Second / time.Duration(a.rate))
	d := a.busy[to].Sub(now) + oneWay
	a.journey[arrival{to, now.Add(d)}] = d
	return d
}

// arrivedAfter returns the one-way delay of the packet that arrives at a node now, through a bottleneck.
func (a *air) arrivedAfter(to net.Addr) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, ok := a.journey[arrival{to.String(), time.Now()}]
	return d, ok
}
