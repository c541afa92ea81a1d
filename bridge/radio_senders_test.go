package bridge

import (
	"fmt"
	"math"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/pacing"
)

// radioSenders are the senders that the node's Pacer is compared with, in the order of the table.
// They replace the Pacer inside the node. They determine the data in flight as in the papers; the
// doc comment of each lists its omissions.
var radioSenders = append(windows(1, 3, 8, 20, 64),
	radioSender{"bbr", func() sender { return &bbrLike{} }},
	radioSender{"copa", func() sender { return &copaLike{} }},
	radioSender{"sprout", func() sender { return &sproutLike{} }},
)

type radioSender struct {
	name string
	make func() sender
}

// sender decides when a packet may be sent.
type sender interface {
	// next returns when the next packet may be sent, given the bytes and packets in flight. false
	// means that the sender waits for an acknowledgement.
	next(now time.Duration, bytes, packets int) (time.Duration, bool)
	sent(now time.Duration, size int)
	answered(now time.Duration, list []simAnswer)
}

// simAnswer acknowledges one packet. It has the arrival by the peer's clock, and the time from
// sending until the acknowledgement.
type simAnswer struct {
	size    int
	arrived time.Duration
	rtt     time.Duration
}

// simulated is the Control of a sender. It probes a silent path like the Pacer.
type simulated struct {
	pacing.Control
	sender
	sentPackets *delivery.SentPackets
	transport   pacing.Transport
	sizes       []int // sizes of the latest packets
}

func (s radioSender) control(f *delivery.SentPackets, t pacing.Transport) pacing.Control {
	return &simulated{pacing.NewPacer(f, t), s.make(), f, t, nil}
}

func (s *simulated) May(now time.Duration, cargo pacing.Cargo, size int) (ok bool, again time.Duration) {
	if cargo == pacing.Probe || s.sentPackets.Silent(now) {
		return s.Control.May(now, cargo, size)
	}
	if at, ok := s.next(now, s.sentPackets.Bytes(), s.packets()); ok && s.sentPackets.Held()+size <= s.transport.Window() {
		return at <= now, at
	}
	return false, now + time.Hour
}

// packets returns how many of the latest packets are in flight.
func (s *simulated) packets() (n int) {
	for bytes := s.sentPackets.Bytes(); bytes > 0 && n < len(s.sizes); n++ {
		bytes -= s.sizes[len(s.sizes)-1-n]
	}
	s.sizes = s.sizes[len(s.sizes)-n:]
	return n
}

func (s *simulated) Sent(now time.Duration, cargo pacing.Cargo, size int) {
	s.Control.Sent(now, cargo, size)
	s.sizes = append(s.sizes, size)
	s.sent(now, size+delivery.HeaderBytes)
}

func (s *simulated) Feedback(now time.Duration, out delivery.Outcome) {
	s.Control.Feedback(now, out)
	var list []simAnswer
	for _, d := range out.Deliveries {
		list = append(list, simAnswer{d.Size + delivery.HeaderBytes, d.Arrived, d.RTT})
	}
	s.answered(now, list)
}

func (s *simulated) Drained() bool { return true }

// windows returns senders with constant windows of the given numbers of packets; 1 is stop and
// wait.
func windows(sizes ...int) (list []radioSender) {
	for _, n := range sizes {
		list = append(list, radioSender{fmt.Sprintf("window %d", n), func() sender { return windowed(n) }})
	}
	return list
}

type windowed int

func (w windowed) next(now time.Duration, bytes, packets int) (time.Duration, bool) {
	return now, packets < int(w)
}
func (windowed) sent(time.Duration, int)             {}
func (windowed) answered(time.Duration, []simAnswer) {}

const simFull = 1280 // bytes of a packet, for windows in packets

// simPath has measurements that several senders share.
type simPath struct {
	list []simAnswer   // acknowledgements of the last seconds
	base time.Duration // smallest round trip
	srtt time.Duration
}

func (m *simPath) note(now time.Duration, list []simAnswer) {
	for _, a := range list {
		if m.base == 0 || a.rtt < m.base {
			m.base = a.rtt
		}
		if m.srtt == 0 {
			m.srtt = a.rtt
		}
		m.srtt += (a.rtt - m.srtt) / 8
		m.list = append(m.list, a)
	}
	for len(m.list) > 0 && m.list[0].arrived < now-3*second {
		m.list = m.list[1:]
	}
}

// rate returns the rate at which data arrived in the last span of time, in bytes/s.
func (m *simPath) rate(span time.Duration) float64 {
	sum, n := 0, len(m.list)
	for i := n - 1; i >= 0 && m.list[i].arrived > m.list[n-1].arrived-span; i-- {
		sum += m.list[i].size
	}
	return float64(sum) / span.Seconds()
}

// copaLike is Copa (Arun and Balakrishnan, NSDI 2018) with delta 0.5, without its competitive mode
// and without slow start.
type copaLike struct {
	simPath
	window, speed float64
	up            bool
	lastTurnAt    time.Duration
	same          int
	free          time.Duration
	recent        []simAnswer // arrived is the time of the acknowledgement
}

const copaDelta = 0.5

func (c *copaLike) next(now time.Duration, bytes, packets int) (time.Duration, bool) {
	if c.window == 0 {
		c.window, c.speed = 10, 1
	}
	return max(now, c.free), packets == 0 || float64(packets) < c.window
}

func (c *copaLike) sent(now time.Duration, size int) {
	c.free = max(now, c.free) + time.Duration(float64(c.srtt)/(2*c.window))
}

func (c *copaLike) answered(now time.Duration, list []simAnswer) {
	c.note(now, list)
	for _, a := range list {
		up := c.below(now, a.rtt)
		if now-c.lastTurnAt > c.srtt {
			if c.same++; up == c.up && c.same >= 3 {
				c.speed = min(c.speed*2, 32)
			}
			c.lastTurnAt = now
		}
		if up != c.up {
			c.speed, c.same, c.up, c.lastTurnAt = 1, 0, up, now
		}
		step := c.speed / (copaDelta * c.window)
		if !up {
			step = -step
		}
		c.window = max(2, c.window+step)
	}
}

// below reports whether the rate is below Copa's target.
func (c *copaLike) below(now, rtt time.Duration) bool {
	c.recent = append(c.recent, simAnswer{arrived: now, rtt: rtt})
	for c.recent[0].arrived < now-c.srtt/2 {
		c.recent = c.recent[1:]
	}
	minRTT := rtt
	for _, r := range c.recent {
		minRTT = min(minRTT, r.rtt)
	}
	queue := (minRTT - c.base).Seconds()
	return queue <= 0 || c.window/minRTT.Seconds() <= 1/(copaDelta*queue)
}

// sproutLike keeps in flight the data that the average rate carries in 100 ms. It is Sprout-EWMA
// (Winstein, Sivaraman, Balakrishnan, NSDI 2013), without the forecast by a model of rate changes.
type sproutLike struct {
	average float64 // bytes/s
	tick    time.Duration
	got     int
}

func (s *sproutLike) next(now time.Duration, bytes, packets int) (time.Duration, bool) {
	const tick = 20 * milli
	if now-s.tick > second {
		s.tick = now // the first call
	}
	for ; now-s.tick >= tick; s.tick += tick {
		if s.got > 0 || bytes > 0 {
			s.average += (float64(s.got)/tick.Seconds() - s.average) / 8
		}
		s.got = 0
	}
	return now, float64(bytes) < max(s.average*0.1, 3*simFull)
}

func (s *sproutLike) sent(time.Duration, int) {}

func (s *sproutLike) answered(now time.Duration, list []simAnswer) {
	for _, a := range list {
		s.got += a.size
	}
}

// bbrLike is BBR (Cardwell et al., ACM Queue 2016), version 1, without startup and round-trip
// probes.
type bbrLike struct {
	simPath
	rates []bbrRate // one for each of the last ten round trips
	free  time.Duration
	cycle time.Duration
	phase int
}

type bbrRate struct {
	at   time.Duration
	rate float64
}

func (b *bbrLike) best() float64 {
	best := 20.0 * simFull
	for _, r := range b.rates {
		best = max(best, r.rate)
	}
	return best
}

func (b *bbrLike) next(now time.Duration, bytes, packets int) (time.Duration, bool) {
	window := 2 * b.best() * max(b.base, 5*milli).Seconds()
	return max(now, b.free), float64(bytes) < max(window, 4*simFull)
}

func (b *bbrLike) sent(now time.Duration, size int) {
	gain := [...]float64{1.25, 0.75, 1, 1, 1, 1, 1, 1}[b.phase]
	b.free = max(now, b.free) + time.Duration(math.Ceil(float64(size)/(gain*b.best())*1e9))
}

func (b *bbrLike) answered(now time.Duration, list []simAnswer) {
	b.note(now, list)
	if rate := b.rate(max(b.srtt, 10*milli)); rate > 0 {
		b.rates = append(b.rates, bbrRate{now, rate})
	}
	for len(b.rates) > 1 && b.rates[0].at < now-10*b.srtt {
		b.rates = b.rates[1:]
	}
	if now-b.cycle > b.base {
		b.cycle, b.phase = now, (b.phase+1)%8
	}
}
