package bridge

import (
	"math"
	"slices"
	"time"

	"achbridge/testnet"
)

// simulation is a sender with a congestion control of the literature, and our choice of
// frames, over the same links as the node. Its mirror reports what has arrived half a
// millisecond after the first packet. Four packets behind one that is missing, or 600 ms
// without news, tell it that the packet is lost; parts of the newest frame go again.
type simulation struct {
	control control
	choice  *lateBinding
	mirrors *simMirrors
	there   *testnet.Link[simPacket]
	back    *testnet.Link[[]simReceipt]
	now     time.Duration
	number  int
	open    []simPacket // that wait for an answer, in order
	bytes   int         // of them
	waiting []simReceipt
	flush   time.Duration // when they are reported
	heard   time.Duration // when an answer came last
	begun   time.Duration // when open stopped being empty
}

// control decides when a packet may leave.
type control interface {
	// next is when the next one may, with so much in flight; false: only an answer can tell.
	next(now time.Duration, bytes, packets int) (time.Duration, bool)
	sent(now time.Duration, size int)
	answered(now time.Duration, list []simAnswer)
}

// simAnswer tells of one packet: how long it took until we knew that it had arrived.
type simAnswer struct {
	size    int
	arrived time.Duration
	rtt     time.Duration
}

type simReceipt struct {
	number  int
	arrived time.Duration
}

const (
	simReport  = 500 * time.Microsecond
	simReports = 32 // receipts in a packet
	simTimeout = 600 * milli
	simBehind  = 3 // packets that may pass another
)

// simulate returns the ages in the mirrors of each load, in ms, and what was carried.
func (r radioRun) simulate(c control) (ages [][]float64, bytes int) {
	choice, airs := newLateBinding(r, radioZero), testnet.NewAirs(r.seed)
	s := &simulation{
		control: c, choice: choice, mirrors: newSimMirrors(choice, radioZero+warmUp), now: radioZero,
		there: testnet.NewLinkIn[simPacket](airs, r.seed, r.params),
		back:  testnet.NewLinkIn[[]simReceipt](airs, r.seed+1, r.params.Back()),
	}
	return r.sample(radioZero, s.mirrors, s.advance)
}

func (s *simulation) advance(to time.Duration) { happen(&s.now, to, s.first) }

func (s *simulation) first() (at time.Duration, what func()) {
	at = math.MaxInt64
	take := func(t time.Duration, f func()) {
		if t < at {
			at, what = t, f
		}
	}
	if t, ok := s.there.Next(); ok {
		take(t, s.arrive)
	}
	if t, ok := s.back.Next(); ok {
		take(t, s.hear)
	}
	if len(s.waiting) > 0 {
		take(s.flush, s.report)
	}
	if len(s.open) > 0 {
		take(max(s.heard, s.begun)+simTimeout, s.giveUp)
	}
	if may, ok := s.control.next(s.now, s.bytes, len(s.open)); ok {
		take(max(s.choice.ready(s.now), may), s.send)
	}
	return at, what
}

func (s *simulation) send() {
	list, size := s.choice.take(s.now)
	s.number++
	p := simPacket{s.number, size, s.now, list}
	if len(s.open) == 0 {
		s.begun = s.now
	}
	s.open = append(s.open, p)
	s.bytes += size
	s.there.Send(s.now, size, p)
	s.control.sent(s.now, size)
}

func (s *simulation) arrive() {
	p, ok := s.there.Receive(s.now)
	if !ok {
		return
	}
	s.mirrors.arrive(s.now, p.size, p.cargo)
	if len(s.waiting) == 0 {
		s.flush = s.now + simReport
	}
	s.waiting = append(s.waiting, simReceipt{p.number, s.now})
}

func (s *simulation) report() {
	n := min(len(s.waiting), simReports)
	s.back.Send(s.now, 80+3*n, slices.Clone(s.waiting[:n]))
	s.waiting = slices.Delete(s.waiting, 0, n)
}

func (s *simulation) hear() {
	receipts, ok := s.back.Receive(s.now)
	if !ok {
		return
	}
	s.heard = s.now
	var list []simAnswer
	newest := 0
	for _, g := range receipts {
		newest = max(newest, g.number)
		i := slices.IndexFunc(s.open, func(p simPacket) bool { return p.number == g.number })
		if i < 0 {
			continue
		}
		p := s.open[i]
		s.bytes -= p.size
		list = append(list, simAnswer{p.size, g.arrived, s.now - p.left - simReport})
		s.open = slices.Delete(s.open, i, i+1)
	}
	for len(s.open) > 0 && s.open[0].number < newest-simBehind {
		s.lose()
	}
	s.control.answered(s.now, list)
}

func (s *simulation) lose() {
	p := s.open[0]
	s.open = slices.Delete(s.open, 0, 1)
	s.bytes -= p.size
	for _, c := range p.cargo {
		if s.choice.parts[c.load] > 1 && c.frame == s.choice.begun[c.load] {
			s.choice.repair = append(s.choice.repair, c)
		}
	}
}

func (s *simulation) giveUp() {
	for len(s.open) > 0 {
		s.lose()
	}
}
