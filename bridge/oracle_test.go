package bridge

import (
	"math"
	"testing"
	"time"

	"achbridge/testnet"
)

// Overhead of a packet of the oracle, and the largest number of frame bytes in it.
const (
	oracleOverhead = 80
	oraclePart     = 1100
)

// formula returns the smallest mean age of a periodic source over a link, in ms (Kaul, Yates,
// Gruteser 2012, for a constant transmission time). Without a queue it is D + S + T/2, plus the
// effect of loss without repair. If the link is slower than the source and sends the newest frame
// each time, it is D + T/2 + 1.5 S.
func formula(l load, p testnet.Params) float64 {
	s, t, d := 0.0, float64(l.period)/1e6, float64(p.Delay)/1e6
	parts := partCount(l.size)
	if p.Rate != 0 {
		s = float64(l.size+oracleOverhead*parts) * 8 / float64(p.Rate) * 1000
	}
	switch {
	case s > t:
		return d + t/2 + 1.5*s
	case parts > 1: // repaired at once
		return d + s/(1-p.Loss) + t/2
	}
	return d + s + t/2*(1+p.Loss)/(1-p.Loss)
}

func partCount(size int) int { return (size + oraclePart - 1) / oraclePart }

// oracle is a sender with knowledge that no real sender has. It knows the moment when the link
// becomes free, and each loss when the fragment is sent. It takes the newest frame each time and
// finishes a frame that it has begun. It does not repair a frame of one packet, since the next one
// is newer.
type oracle struct {
	l       load
	link    *testnet.Link[part]
	changes []change
	phase   time.Duration
	now     time.Duration
	next    uint64        // number of the next frame, from 1
	current uint64        // number of the frame that is being sent, or was sent last
	sent    int           // fragments of begun that were sent
	coming  uint64        // number of the frame whose fragments are arriving
	there   int           // fragments of coming that have arrived
	stamp   time.Duration // time stamp of the newest frame that has arrived
}

type part struct{ number uint64 }

// oracle returns the ages that load i would have, sampled like the mirror. It has the same link
// with the same phase, without other loads, at its share of the rate.
func (b *bench) oracle(i int) (ages []float64) {
	p := b.params
	if b.s.share > 1 {
		p.Rate /= int64(b.s.share)
	}
	o := &oracle{l: b.s.loads[i], link: testnet.NewLink[part](b.seed, p), changes: b.s.changes, phase: b.phases[i], next: 1}
	for at := time.Duration(0); at < warmUp+b.s.span(); at += b.s.step() {
		o.advance(at)
		ages = append(ages, float64(at-o.stamp)/1e6)
	}
	return ages
}

// at returns the parameters of the link at a time.
func (b *bench) at(now time.Duration) testnet.Params {
	p := b.params
	if b.s.share > 1 {
		p.Rate /= int64(b.s.share)
	}
	for _, c := range b.s.changes {
		if c.at <= now {
			p, _ = p.With(c.text)
		}
	}
	return p
}

func (o *oracle) put(number uint64) time.Duration {
	return o.phase + o.l.start + time.Duration(number-1)*o.l.period
}

func (o *oracle) pending() bool {
	return o.sent < partCount(o.l.size) && o.current > 0 || o.next-1 > o.current
}

// advance handles all events until a time.
func (o *oracle) advance(to time.Duration) {
	for {
		at, what := o.first()
		if at > to {
			o.now = to
			return
		}
		o.now = at
		what()
	}
}

// first returns the next event and its time.
func (o *oracle) first() (at time.Duration, what func()) {
	at = math.MaxInt64
	take := func(t time.Duration, f func()) {
		if t < at {
			at, what = t, f
		}
	}
	if t, ok := o.link.Next(); ok {
		take(t, o.arrive)
	}
	if len(o.changes) > 0 {
		take(o.changes[0].at, o.change)
	}
	if !o.l.once || o.next == 1 {
		take(o.put(o.next), func() { o.next++ })
	}
	if o.pending() && !o.link.Params().Cut {
		take(o.link.Free(o.now), o.send)
	}
	return at, what
}

func (o *oracle) change() {
	p, err := o.link.Params().With(o.changes[0].text)
	if err != nil {
		panic(err)
	}
	o.link.Set(o.now, p)
	o.changes = o.changes[1:]
}

func (o *oracle) send() {
	parts := partCount(o.l.size)
	if o.current == 0 || o.sent == parts {
		o.current, o.sent = o.next-1, 0
	}
	size := (o.l.size + parts - 1) / parts
	sent := o.link.Send(o.now, size+oracleOverhead, part{o.current})
	if sent.Outcome != testnet.Lost || parts == 1 {
		o.sent++
	}
}

func (o *oracle) arrive() {
	p, _ := o.link.Receive(o.now)
	if partCount(o.l.size) == 1 {
		o.stamp = max(o.stamp, o.put(p.number))
		return
	}
	if p.number != o.coming {
		o.coming, o.there = p.number, 0
	}
	if o.there++; o.there == partCount(o.l.size) {
		o.stamp = o.put(p.number)
	}
}

func TestOracleMatchesFormula(t *testing.T) {
	measured(t)
	for _, s := range scenarios {
		if len(s.changes) > 0 || len(s.windows) > 0 {
			continue // the formula applies only to a link that does not change
		}
		params, err := testnet.ParseParams(s.link)
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{s: s, params: params, phases: make([]time.Duration, len(s.loads))}
		for i, l := range s.loads {
			got, want := ageStat(cut(b.oracle(i), s.allWindows()[0], s.step())).mean, formula(l, b.at(warmUp))
			// Where S is nearly a multiple of T, the mean depends on the phase.
			if tolerance := 0.02*want + float64(min(l.period, 10*milli))/2e6; math.Abs(got-want) > tolerance {
				t.Errorf("%s, %s: got %.2f ms, want %.2f", s.name, l.channel, got, want)
			}
		}
	}
}
