package transport

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"
)

// oneWay is the delay of the emulated network.
const oneWay = 5 * time.Millisecond

// forgedPort marks addresses that can be sent from and never reached.
const forgedPort = 666

// air is the emulated network between the links of the nodes.
type air struct {
	simnet.PerfectRouter

	mu      sync.Mutex
	dice    *rand.Rand
	loss    float64              // share of the packets that get lost
	rate    int                  // of the bottleneck before each node, in bytes a second; 0 is none
	busy    map[string]time.Time // by receiver: until when its bottleneck has packets queued
	journey map[arrival]time.Duration
}

// arrival is when and where a packet comes out of a bottleneck; no two are the same.
type arrival struct {
	to string
	at time.Time
}

func newAir() *air {
	return &air{
		dice:    rand.New(rand.NewPCG(1, 2)),
		busy:    make(map[string]time.Time),
		journey: make(map[arrival]time.Duration),
	}
}

func (a *air) SendPacket(p simnet.Packet) error {
	a.mu.Lock()
	lost := a.dice.Float64() < a.loss
	a.mu.Unlock()
	if lost || p.To.(*net.UDPAddr).Port == forgedPort {
		return nil
	}
	return a.PerfectRouter.SendPacket(p)
}

// lose makes the air lose a share of the packets from now on; 1 cuts all ties.
func (a *air) lose(share float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.loss = share
}

// narrow puts a bottleneck with an endless queue before each node.
func (a *air) narrow(bytesPerSecond int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rate = bytesPerSecond
}

// delay is how long the packet that is sent now will be on its way.
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

// arrivedAfter returns how long the packet was on its way that arrives at a node
// now, through a bottleneck.
func (a *air) arrivedAfter(to net.Addr) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, ok := a.journey[arrival{to.String(), time.Now()}]
	return d, ok
}
