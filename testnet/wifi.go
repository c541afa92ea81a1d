package testnet

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// wifiModel models a station of a Wi-Fi cell. The air is half-duplex. Each attempt
// waits for the air and for a random time, then sends an aggregate (A-MPDU) whose
// packets fail separately or all together. Failed packets are retransmitted up to
// ten times and arrive in order. The rate changes in steps. The station stalls at
// times, as for a scan. Other stations use the air more in busy spells than in calm
// ones.
//
// It does not model the physical layer, hidden stations, collisions except those in
// wholeLoss, rates that differ between the stations of one air, access classes
// (EDCA), the size of the block-ack window, power saving, and multicast, which has
// no acknowledgements. The parameters of good, busy and edge are guesses, not fitted
// to measurements. Those of fit-campus and the other fit models are fitted to
// published percentiles (wifi_fit.go).
type wifiModel struct {
	rates         []float64        // rates of the payload in bit/s, from step to step
	dwell         [2]time.Duration // shortest and longest time between two steps
	loss          float64          // share of the packets of an aggregate that fail
	wholeLoss     float64          // share of the aggregates that fail as a whole
	overhead      time.Duration    // time for preamble, gaps and block ack of an aggregate
	longest       time.Duration    // longest time for the payload of an aggregate
	stalls        []stallClass
	calm          [2]time.Duration // mean length of calm and busy spells
	otherTurns    [2]float64       // mean number of transmissions of others before ours, calm and busy
	otherTurnTime time.Duration    // mean length of a transmission of others
}

// stallClass is a kind of stall: its mean interval, and its length, log-uniformly
// distributed between least and most.
type stallClass struct{ every, least, most time.Duration }

var wifiModels = map[string]*wifiModel{
	// A good link at 5 GHz: light contention, short stalls, occasional scans.
	"good": {
		rates: []float64{26e6, 39e6, 52e6, 58.5e6, 65e6, 72.2e6}, dwell: [2]time.Duration{200 * time.Millisecond, time.Second},
		loss: 0.03, wholeLoss: 0.01, overhead: 180 * time.Microsecond, longest: 4 * time.Millisecond,
		stalls: []stallClass{{400 * time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond}, {8 * time.Second, 40 * time.Millisecond, 120 * time.Millisecond}},
		calm:   [2]time.Duration{2 * time.Second, 300 * time.Millisecond}, otherTurns: [2]float64{0.1, 1}, otherTurnTime: time.Millisecond,
	},
	// 2.4 GHz in a full hall: others use the air for long, many retries.
	"busy": {
		rates: []float64{13e6, 19.5e6, 26e6, 39e6, 52e6}, dwell: [2]time.Duration{100 * time.Millisecond, 800 * time.Millisecond},
		loss: 0.10, wholeLoss: 0.08, overhead: 220 * time.Microsecond, longest: 4 * time.Millisecond,
		stalls: []stallClass{{300 * time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond}, {5 * time.Second, 50 * time.Millisecond, 200 * time.Millisecond}},
		calm:   [2]time.Duration{700 * time.Millisecond, 500 * time.Millisecond}, otherTurns: [2]float64{0.8, 4}, otherTurnTime: 1500 * time.Microsecond,
	},
	// A moving station at the edge of the range: low and changing rates, long stalls.
	"edge": {
		rates: []float64{6e6, 6.5e6, 13e6, 19.5e6, 26e6, 39e6}, dwell: [2]time.Duration{100 * time.Millisecond, 600 * time.Millisecond},
		loss: 0.20, wholeLoss: 0.10, overhead: 250 * time.Microsecond, longest: 4 * time.Millisecond,
		stalls: []stallClass{{700 * time.Millisecond, 5 * time.Millisecond, 100 * time.Millisecond}, {4 * time.Second, 80 * time.Millisecond, 200 * time.Millisecond}},
		calm:   [2]time.Duration{1500 * time.Millisecond, 500 * time.Millisecond}, otherTurns: [2]float64{0.3, 2}, otherTurnTime: 1500 * time.Microsecond,
	},
	"fit-campus": &fitCampus, "fit-campus-tcp": &fitCampusTCP, "fit-home-2g4": &fitHome2G4, "fit-home-5g": &fitHome5G,
}

// WifiModels returns the names that Params.Wifi may have, sorted.
func WifiModels() []string { return slices.Sorted(maps.Keys(wifiModels)) }

// conditions are the rates, stalls and busy spells of an air over time, the same for
// all stations of one model. They repeat after conditionsLoop.
type conditions struct {
	rates  []rateStep
	stalls []span // disjoint and sorted
	busy   []span
}

type rateStep struct {
	from time.Duration
	rate float64
}

type span struct{ from, to time.Duration }

const conditionsLoop = 120 * time.Second

func (m *wifiModel) conditions(seed uint64) *conditions {
	w, r := &conditions{}, rand.New(rand.NewPCG(seed, 7))
	at := len(m.rates) / 2
	for now := time.Duration(0); now < conditionsLoop; {
		w.rates = append(w.rates, rateStep{now, m.rates[at]})
		now += m.dwell[0] + scaled(r.Float64(), m.dwell[1]-m.dwell[0])
		move := r.IntN(3) - 1
		if r.Float64() < 0.15 {
			move *= 3
		}
		at = min(max(at+move, 0), len(m.rates)-1)
	}
	for _, c := range m.stalls {
		for now := scaled(r.ExpFloat64(), c.every); now < conditionsLoop; {
			long := scaled(math.Exp(r.Float64()*math.Log(float64(c.most)/float64(c.least))), c.least)
			w.stalls = append(w.stalls, span{now, now + long})
			now += long + scaled(r.ExpFloat64(), c.every)
		}
	}
	w.stalls = mergeSpans(w.stalls)
	for now := scaled(r.ExpFloat64(), m.calm[0]); now < conditionsLoop; {
		long := scaled(r.ExpFloat64(), m.calm[1])
		w.busy = append(w.busy, span{now, now + long})
		now += long + scaled(r.ExpFloat64(), m.calm[0])
	}
	return w
}

func scaled(factor float64, d time.Duration) time.Duration { return time.Duration(factor * float64(d)) }

// mergeSpans sorts spans and merges those that touch.
func mergeSpans(list []span) (merged []span) {
	slices.SortFunc(list, func(a, b span) int { return int(a.from - b.from) })
	for _, s := range list {
		if n := len(merged); n > 0 && s.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, s.to)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

func (w *conditions) rate(now time.Duration) float64 {
	now %= conditionsLoop
	return w.rates[sort.Search(len(w.rates), func(i int) bool { return w.rates[i].from > now })-1].rate
}

// stallEnd returns when there is no stall, at now or later.
func (w *conditions) stallEnd(now time.Duration) time.Duration {
	if s, ok := spanAt(w.stalls, now%conditionsLoop); ok {
		return now + s.to - now%conditionsLoop
	}
	return now
}

func (w *conditions) isBusy(now time.Duration) bool {
	_, ok := spanAt(w.busy, now%conditionsLoop)
	return ok
}

// spanAt returns the span that contains now.
func spanAt(list []span, now time.Duration) (span, bool) {
	i := sort.Search(len(list), func(i int) bool { return list[i].from > now }) - 1
	if i < 0 || now >= list[i].to {
		return span{}, false
	}
	return list[i], true
}
