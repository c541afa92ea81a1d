package testnet

import (
	"math/rand/v2"
	"slices"
	"time"
)

// station sends a link's packets over the air.
type station[T any] struct {
	link       *Link[T]
	air        *air
	model      *wifiModel
	conditions *conditions
	rand       *rand.Rand
	wantsAir   bool          // an attempt is scheduled
	attemptAt  time.Duration // time of the scheduled attempt
	isSending  bool          // an aggregate is in the air
	endsAt     time.Duration // end of the aggregate in the air
	inAir      []*packet[T]  // packets of the aggregate in the air
	retry      []*packet[T]  // packets whose last attempt failed, in order
	window     []*packet[T]  // packets taken from the queue and not delivered yet, in order
	lastSentAt time.Duration // beginning of the last aggregate
	fill       func(now time.Duration, room int) (size int, payload T, ok bool)
}

const (
	slotTime  = 9 * time.Microsecond // 802.11, at 20 MHz
	difs      = 34 * time.Microsecond
	slots     = 16
	maxFrames = 64    // maximum number of packets in an aggregate
	maxBytes  = 65535 // largest aggregate
	mpduBytes = 50    // size of the headers of a packet in an aggregate
	maxTries  = 10    // attempts per packet
)

// addStation adds a station for the link to its air.
func (l *Link[T]) addStation(now time.Duration) {
	a := l.airs.get(l.params.Air, l.seed)
	a.run(now)
	a.joinCount++
	m := wifiModels[l.params.Wifi]
	s := &station[T]{link: l, air: a, model: m, conditions: a.conditions(m), rand: rand.New(rand.NewPCG(a.seed, 98+a.joinCount)), lastSentAt: now}
	a.stations = append(a.stations, s)
	l.station = s
	if len(l.queue) > 0 {
		s.schedule(now)
	}
}

// removeStation removes the link's station. Packets that were not delivered return to the queue.
func (l *Link[T]) removeStation() {
	s := l.station
	s.air.stations = slices.DeleteFunc(s.air.stations, func(c contender) bool { return c == contender(s) })
	back := slices.DeleteFunc(s.window, func(p *packet[T]) bool { return p.lostInAir })
	for _, p := range back {
		p.tries, p.passedAir = 0, false
		l.bytes += int64(p.size)
	}
	l.queue, l.station = append(back, l.queue...), nil
}

// Fill makes the link, which must have Wifi, call f when it forms an aggregate, so that
// f can choose the newest packets as no real sender can. Each call returns one packet of
// at most room bytes, which is sent after the queued ones. f is called after Want, and
// until it returns false.
func (l *Link[T]) Fill(f func(now time.Duration, room int) (size int, payload T, ok bool)) {
	l.station.fill = f
}

// Want reports that the function of Fill has packets to send.
func (l *Link[T]) Want(now time.Duration) {
	l.advance(now)
	l.station.requestAir(now)
}

// requestAir schedules an attempt unless there is one.
func (s *station[T]) requestAir(now time.Duration) {
	if !s.wantsAir && !s.isSending {
		s.schedule(now)
	}
}

func (s *station[T]) next() (time.Duration, bool) {
	if s.isSending {
		return s.endsAt, true
	}
	return s.attemptAt, s.wantsAir
}

func (s *station[T]) lastSent() time.Duration { return s.lastSentAt }

func (s *station[T]) act(now time.Duration) {
	if s.isSending {
		s.finish(now)
	} else {
		s.begin(now)
	}
}

// schedule draws the time of the next attempt: after the stall, the transmission in the
// air, the back-off and the transmissions of others.
func (s *station[T]) schedule(now time.Duration) {
	at := max(s.conditions.stallEnd(now), s.air.busyUntil)
	mean := s.model.otherTurns[0]
	if s.conditions.isBusy(at) {
		mean = s.model.otherTurns[1]
	}
	at += difs + time.Duration(s.rand.IntN(slots))*slotTime
	for s.rand.Float64() < mean/(1+mean) {
		at += scaled(0.2+0.8*s.rand.ExpFloat64(), s.model.otherTurnTime)
	}
	s.wantsAir, s.attemptAt = true, at
}

// clear drops all packets. A transmission in the air continues without packets.
func (s *station[T]) clear() {
	s.inAir, s.retry, s.window = nil, nil, nil
}

// begin sends an aggregate if the air is free.
func (s *station[T]) begin(now time.Duration) {
	s.wantsAir = false
	if s.air.busyUntil > now || s.conditions.stallEnd(now) > now {
		s.schedule(now)
		return
	}
	rate := s.conditions.rate(now)
	bytes := s.aggregate(now, min(int(rate*s.model.longest.Seconds()/8), maxBytes))
	if len(s.inAir) == 0 {
		return
	}
	s.isSending, s.lastSentAt = true, now
	s.endsAt = now + s.model.overhead + time.Duration(float64(bytes)*8/rate*1e9)
	s.air.busyUntil = s.endsAt
}

// aggregate fills inAir with failed packets, then new ones. The first packet always fits.
func (s *station[T]) aggregate(now time.Duration, room int) (bytes int) {
	l := s.link
	s.inAir = s.inAir[:0]
	take := func(p *packet[T]) bool {
		if len(s.inAir) > 0 && (len(s.inAir) == maxFrames || bytes+p.size+mpduBytes > room) {
			return false
		}
		s.inAir = append(s.inAir, p)
		bytes += p.size + mpduBytes
		return true
	}
	for len(s.retry) > 0 && take(s.retry[0]) {
		s.retry = s.retry[1:]
	}
	for len(s.retry) == 0 && len(l.queue) > 0 && take(l.queue[0]) {
		s.window = append(s.window, l.queue[0])
		l.bytes -= int64(l.queue[0].size)
		l.queue = slices.Delete(l.queue, 0, 1)
	}
	for s.fill != nil && len(s.retry) == 0 && len(l.queue) == 0 && len(s.inAir) < maxFrames {
		size, payload, ok := s.fill(now, room-bytes-mpduBytes)
		if !ok {
			break
		}
		p := l.packet(size, payload)
		l.accept(p)
		s.window = append(s.window, p)
		take(p)
	}
	return bytes
}

// finish chooses at random which packets of the aggregate failed, and delivers packets in order.
func (s *station[T]) finish(now time.Duration) {
	s.isSending = false
	whole := s.rand.Float64() < s.model.wholeLoss
	var again []*packet[T]
	for _, p := range s.inAir {
		failed := s.rand.Float64() < s.model.loss || whole
		p.tries++
		switch {
		case !failed:
			p.passedAir = true
		case p.tries == maxTries:
			p.lostInAir = true
			if p.outcome != Lost {
				s.link.counts.Lost++
			}
		default:
			again = append(again, p)
		}
	}
	s.retry = append(again, s.retry...)
	n := 0
	for ; n < len(s.window) && (s.window[n].passedAir || s.window[n].lostInAir); n++ {
		if p := s.window[n]; p.passedAir {
			p.depart = now
			s.link.put(p)
		}
	}
	s.window = slices.Delete(s.window, 0, n)
	if len(s.retry) > 0 || len(s.link.queue) > 0 || s.fill != nil {
		s.schedule(now)
	}
}
