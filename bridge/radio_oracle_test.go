package bridge

import (
	"math"
	"time"

	"achbridge/testnet"
)

// radioOracle is a sender that knows when the link accepts a packet, which no real sender knows.
// It is greedy: it then sends the newest frames. It finishes a frame that it has begun. It has no
// losses to repair and needs no acknowledgements.
type radioOracle struct {
	choice  *lateBinding
	mirrors *simMirrors
	link    *testnet.Link[simPacket]
	air     bool
	now     time.Duration
}

type simPacket struct {
	size  int
	cargo []cargo
}

// oracle returns the ages in each load's mirror, in ms, and the bytes carried.
func (r radioRun) oracle(zero time.Duration) (ages [][]float64, bytes int) {
	choice := newLateBinding(r, zero)
	o := &radioOracle{choice: choice, mirrors: newSimMirrors(choice, zero+warmUp), now: zero, air: r.params.Wifi != ""}
	o.link = testnet.NewLinkIn[simPacket](testnet.NewAirs(r.seed), r.seed, r.params)
	if o.air {
		o.link.Fill(o.fill)
	}
	return r.sample(zero, o.mirrors, o.advance)
}

// sample samples the simulated mirrors at the same times as the node's.
func (r radioRun) sample(zero time.Duration, m *simMirrors, advance func(time.Duration)) (ages [][]float64, bytes int) {
	ages = make([][]float64, len(r.loads))
	for at := time.Duration(0); at < warmUp+r.length; at += r.step() {
		advance(zero + at)
		for i := range ages {
			ages[i] = append(ages[i], float64(zero+at-max(m.stamps[i], zero))/1e6)
		}
	}
	return ages, m.bytes
}

func (o *radioOracle) advance(to time.Duration) { happen(&o.now, to, o.first) }

// happen runs the next event that first returns, repeatedly, until the time to.
func happen(now *time.Duration, to time.Duration, first func() (at time.Duration, what func())) {
	for {
		at, what := first()
		if at > to {
			return
		}
		*now = max(*now, at)
		what()
	}
}

func (o *radioOracle) first() (at time.Duration, what func()) {
	at = math.MaxInt64
	ready := o.choice.ready(o.now)
	if o.air && ready <= o.now {
		o.link.Want(o.now)
	}
	if t, ok := o.link.Next(); ok {
		at, what = t, o.arrive
	}
	switch {
	case !o.air:
		if t := o.link.Free(ready); t < at {
			at, what = t, o.send
		}
	case ready > o.now && ready < at:
		at, what = ready, func() {}
	}
	return at, what
}

func (o *radioOracle) send() {
	list, size := o.choice.take(o.now)
	o.link.Send(o.now, size, simPacket{size, list})
}

// fill is called when the station makes an aggregate.
func (o *radioOracle) fill(now time.Duration, room int) (size int, p simPacket, ok bool) {
	if room < simRoom+oracleOverhead || o.choice.ready(now) > now {
		return 0, p, false
	}
	list, size := o.choice.take(now)
	return size, simPacket{size, list}, true
}

func (o *radioOracle) arrive() {
	if p, ok := o.link.Receive(o.now); ok {
		o.mirrors.arrive(o.now, p.size, p.cargo)
	}
}
