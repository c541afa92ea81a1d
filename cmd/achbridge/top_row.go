package main

import (
	"math"
	"strings"

	"achbridge/bridge"
)

// topRow is one channel as top shows it. What is not known is not a number.
type topRow struct {
	key, name, of string
	state, reason string
	age, mean     float64 // ms
	p99, budget   float64 // ms
	used          float64 // share of the budget, beyond the time between two frames
	rate, drops   float64 // a second
	ages          []float64
	in            bool // it is a mirror
}

// bad reports whether somebody should look.
func (r topRow) bad() bool { return r.rank() > 0 || r.used > 1 }

// rank is how far a row is from being at work.
func (r topRow) rank() int {
	switch {
	case r.state == "refused":
		return 3
	case r.state == "waiting":
		return 2
	case r.state != "live":
		return 1
	}
	return 0
}

// has reports whether the filter lets the row through.
func (r topRow) has(filter string) bool {
	return strings.Contains(strings.ToLower(r.name+" "+r.of+" "+r.state), strings.ToLower(filter))
}

func mirrorTopRow(c bridge.MirrorStatus, past *topPast) topRow {
	r := topRow{
		key: inKey(c), name: c.Name, of: c.Host + "/" + c.Channel, state: c.State, reason: c.Reason, in: true,
		age: math.NaN(), mean: math.NaN(), p99: math.NaN(), ages: past.ages(),
	}
	r.budget = msOf(budgetOf(c.QoS))
	if c.AgeMs != nil {
		r.age = *c.AgeMs
	}
	if c.Age != nil && c.Age.Window != nil {
		r.mean, r.p99 = c.Age.Window.MeanMs, c.Age.Window.P99Ms
	}
	oldest := r.p99
	if !(oldest > r.age) && !math.IsNaN(r.age) {
		oldest = r.age
	}
	r.used = max(0, oldest-past.period(c)) / r.budget
	r.rate, r.drops = past.rates()
	return r
}

func exportTopRow(e bridge.ExportStatus, past *topPast) topRow {
	nan := math.NaN()
	r := topRow{
		key: outKey(e), name: e.Channel + " > " + e.Peer, of: e.Peer, state: "live", reason: e.Reason,
		age: nan, mean: nan, p99: nan, budget: nan, used: nan,
	}
	if e.Reason != "" {
		r.state = "stuck"
	}
	r.rate, r.drops = past.rates()
	return r
}

// topSample is what a status said of a channel.
type topSample struct {
	up   float64 // s, of the daemon
	age  topAge
	done bridge.Accounts
}

// topAge is an age summed up over time, ms times s, and that time.
type topAge struct{ sum, span float64 }

// topPast is what was said of a channel lately, oldest first.
type topPast struct{ samples []topSample }

const (
	keptSamples = 121
	rateSamples = 5 // a rate is over so many looks
)

// with returns the past with another sample, as a value of its own.
func (p *topPast) with(s topSample) *topPast {
	kept := p.samples[max(0, len(p.samples)-keptSamples+1):]
	return &topPast{append(kept[:len(kept):len(kept)], s)}
}

// rates are the frames put each second, and those that were not, but for those that
// nobody wanted.
func (p *topPast) rates() (put, dropped float64) {
	n := len(p.samples)
	if n < 2 {
		return math.NaN(), math.NaN()
	}
	from, to := p.samples[max(0, n-1-rateSamples)], p.samples[n-1]
	span := to.up - from.up
	per := func(of func(bridge.Accounts) uint64) float64 {
		return max(0, float64(int64(of(to.done)-of(from.done)))/span)
	}
	put = per(func(a bridge.Accounts) uint64 { return a.Delivered + a.LateKept })
	dropped = per(func(a bridge.Accounts) (sum uint64) {
		for _, d := range dropsOf(a) {
			sum += d.count
		}
		return sum - a.RateLimited
	})
	return put, dropped
}

// leastFrames are enough to tell how often they come.
const leastFrames = 10

// period is the time between two frames that a mirror is to get, in ms: lately, else
// since the first; 0: not known. So old a channel's newest frame becomes of itself.
func (p *topPast) period(c bridge.MirrorStatus) (ms float64) {
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	if n := int64(last.done.Offered - first.done.Offered); n >= leastFrames {
		ms = 1000 * (last.up - first.up) / float64(n)
	} else if c.Age != nil && c.Age.Total != nil && c.Offered > 0 {
		ms = 1000 * c.Age.Total.WindowS / float64(c.Offered)
	}
	if most := c.QoS.MaxRate.Hz(); most > 0 {
		ms = max(ms, 1000/most)
	}
	return ms
}

// ages are the mean ages between two looks, not a number where they are not known.
func (p *topPast) ages() []float64 {
	var list []float64
	for i := 1; i < len(p.samples); i++ {
		before, now := p.samples[i-1].age, p.samples[i].age
		mean := (now.sum - before.sum) / (now.span - before.span)
		if now.span-before.span < 1e-3 || mean < 0 {
			mean = math.NaN()
		}
		list = append(list, mean)
	}
	return list
}
