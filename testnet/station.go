package testnet

import (
	"math/rand/v2"
	"slices"
	"time"
)

// station is what sends a link's packets over the air.
type station[T any] struct {
	link    *Link[T]
	air     *air
	model   *wifiModel
	weather *weather
	rand    *rand.Rand
	wants   bool          // the air, for an attempt
	attempt time.Duration // when
	sends   bool          // an aggregate
	end     time.Duration // when
	frames  []*packet[T]  // of the aggregate
	retry   []*packet[T]  // that failed, in order
	window  []*packet[T]  // taken from the queue and not yet handed over, in order
	last    time.Duration // it sent then
	fill    func(now time.Duration, room int) (size int, payload T, ok bool)
}

const (
	slotTime   = 9 * time.Microsecond // 802.11, at 20 MHz
	difs       = 34 * time.Microsecond
	slots      = 16
	mostFrames = 64 // of an aggregate
	mostBytes  = 65535
	mpduBytes  = 50 // headers of a packet in an aggregate
	mostTries  = 10
)

// enter gives the link a station.
func (l *Link[T]) enter(now time.Duration) {
	a := l.airs.of(l.params.Air, l.seed)
	a.live(now)
	a.joined++
	m := wifiModels[l.params.Wifi]
	s := &station[T]{link: l, air: a, model: m, weather: a.weather(m), rand: rand.New(rand.NewPCG(a.seed, 98+a.joined)), last: now}
	a.stations = append(a.stations, s)
	l.station = s
	if len(l.queue) > 0 {
		s.schedule(now)
	}
}

// leave takes the station away; all that has not been handed over waits again.
func (l *Link[T]) leave() {
	s := l.station
	s.air.stations = slices.DeleteFunc(s.air.stations, func(c contender) bool { return c == contender(s) })
	back := slices.DeleteFunc(s.window, func(p *packet[T]) bool { return p.gone })
	for _, p := range back {
		p.tries, p.through = 0, false
		l.bytes += int64(p.size)
	}
	l.queue, l.station = append(back, l.queue...), nil
}

// Fill lets f choose packets at the moment at which an aggregate is made, as no real
// sender can: behind what waits in the queue, one a call, of room bytes at most.
// F is asked after Want, and as long as it has something. For links with Wifi only.
func (l *Link[T]) Fill(f func(now time.Duration, room int) (size int, payload T, ok bool)) {
	l.station.fill = f
}

// Want tells that the function of Fill has something to send.
func (l *Link[T]) Want(now time.Duration) {
	l.advance(now)
	l.station.rouse(now)
}

// rouse has the station want the air.
func (s *station[T]) rouse(now time.Duration) {
	if !s.wants && !s.sends {
		s.schedule(now)
	}
}

func (s *station[T]) next() (time.Duration, bool) {
	if s.sends {
		return s.end, true
	}
	return s.attempt, s.wants
}

func (s *station[T]) used() time.Duration { return s.last }

func (s *station[T]) act(now time.Duration) {
	if s.sends {
		s.finish(now)
	} else {
		s.begin(now)
	}
}

// schedule draws when the station tries next: after standstill, transmission, back-off
// and the turns of others.
func (s *station[T]) schedule(now time.Duration) {
	at := max(s.weather.clear(now), s.air.busy)
	mean := s.model.others[0]
	if s.weather.isBusy(at) {
		mean = s.model.others[1]
	}
	at += difs + time.Duration(s.rand.IntN(slots))*slotTime
	for s.rand.Float64() < mean/(1+mean) {
		at += scaled(0.2+0.8*s.rand.ExpFloat64(), s.model.foreign)
	}
	s.wants, s.attempt = true, at
}

// clear forgets all packets. What is in the air stays a transmission of nothing.
func (s *station[T]) clear() {
	s.frames, s.retry, s.window = nil, nil, nil
}

// begin sends an aggregate, if the air is free.
func (s *station[T]) begin(now time.Duration) {
	s.wants = false
	if s.air.busy > now || s.weather.clear(now) > now {
		s.schedule(now)
		return
	}
	rate := s.weather.rate(now)
	bytes := s.aggregate(now, min(int(rate*s.model.longest.Seconds()/8), mostBytes))
	if len(s.frames) == 0 {
		return
	}
	s.sends, s.last = true, now
	s.end = now + s.model.overhead + time.Duration(float64(bytes)*8/rate*1e9)
	s.air.busy = s.end
}

// aggregate takes packets: those that failed before all others. One fits always.
func (s *station[T]) aggregate(now time.Duration, room int) (bytes int) {
	l := s.link
	s.frames = s.frames[:0]
	take := func(p *packet[T]) bool {
		if len(s.frames) > 0 && (len(s.frames) == mostFrames || bytes+p.size+mpduBytes > room) {
			return false
		}
		s.frames = append(s.frames, p)
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
	for s.fill != nil && len(s.retry) == 0 && len(l.queue) == 0 && len(s.frames) < mostFrames {
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

// finish draws what has become of the aggregate, and hands over in order.
func (s *station[T]) finish(now time.Duration) {
	s.sends = false
	whole := s.rand.Float64() < s.model.wholeLoss
	var again []*packet[T]
	for _, p := range s.frames {
		failed := s.rand.Float64() < s.model.loss || whole
		p.tries++
		switch {
		case !failed:
			p.through = true
		case p.tries == mostTries:
			p.gone = true
			if p.fate != Lost {
				s.link.counts.Lost++
			}
		default:
			again = append(again, p)
		}
	}
	s.retry = append(again, s.retry...)
	n := 0
	for ; n < len(s.window) && (s.window[n].through || s.window[n].gone); n++ {
		if p := s.window[n]; p.through {
			p.depart = now
			s.link.put(p)
		}
	}
	s.window = slices.Delete(s.window, 0, n)
	if len(s.retry) > 0 || len(s.link.queue) > 0 || s.fill != nil {
		s.schedule(now)
	}
}
