package top

import (
	"math"
	"strings"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

// channelRow is one channel as top shows it. What is not known is not a number.
type channelRow struct {
	key, name, of string
	state, reason string
	age, mean     float64 // ms
	p99, budget   float64 // ms
	used          float64 // see diagnose.UsedOf
	rate, drops   float64 // a second
	ages          []float64
	in            bool // it is a mirror
}

// bad reports whether somebody should look.
func (r channelRow) bad() bool { return r.rank() > 0 || r.used > 1 }

// rank is how far a row is from being at work.
func (r channelRow) rank() int {
	switch {
	case r.state == status.MirrorRefused.String():
		return 3
	case r.state == status.MirrorWaiting.String():
		return 2
	case r.state != status.MirrorLive.String():
		return 1
	}
	return 0
}

// has reports whether the filter lets the row through.
func (r channelRow) has(filter string) bool {
	return strings.Contains(strings.ToLower(r.name+" "+r.of+" "+r.state), strings.ToLower(filter))
}

func mirrorRow(c status.Mirror, past *history) channelRow {
	r := channelRow{
		key: inKey(c), name: c.Name, of: c.Host + "/" + c.Channel, state: c.State.String(), reason: c.Reason, in: true,
		age: math.NaN(), mean: math.NaN(), p99: math.NaN(), ages: past.ages(),
	}
	r.budget = ui.Milliseconds(c.QoS.EffectiveBudget())
	if c.AgeMs != nil {
		r.age = *c.AgeMs
	}
	if c.Age != nil && c.Age.Window != nil {
		r.mean, r.p99 = c.Age.Window.MeanMs, c.Age.Window.P99Ms
	}
	r.used = diagnose.UsedOf(c)
	r.rate, r.drops = past.rates()
	return r
}

func exportRow(e status.Subscription, past *history) channelRow {
	nan := math.NaN()
	r := channelRow{
		key: outKey(e), name: e.Channel + " > " + e.Peer, of: e.Peer, state: status.MirrorLive.String(), reason: e.Reason,
		age: nan, mean: nan, p99: nan, budget: nan, used: nan,
	}
	if e.Reason != "" {
		r.state = "stuck"
	}
	r.rate, r.drops = past.rates()
	return r
}

// sample is what a status said of a channel.
type sample struct {
	up   float64 // s, of the daemon
	age  ageSoFar
	done ledger.Accounts
}

// ageSoFar is an age summed up over time, ms times s, and that time.
type ageSoFar struct{ sum, span float64 }

// history is what was said of a channel lately, oldest first.
type history struct{ samples []sample }

const (
	keptSamples = 121
	rateSamples = 5 // a rate is over so many looks
)

// with returns the past with another sample, as a value of its own.
func (p *history) with(s sample) *history {
	kept := p.samples[max(0, len(p.samples)-keptSamples+1):]
	return &history{append(kept[:len(kept):len(kept)], s)}
}

// rates are the frames put each second, and those that were not, but for those that
// nobody wanted.
func (p *history) rates() (put, dropped float64) {
	n := len(p.samples)
	if n < 2 {
		return math.NaN(), math.NaN()
	}
	from, to := p.samples[max(0, n-1-rateSamples)], p.samples[n-1]
	span := to.up - from.up
	per := func(of func(ledger.Accounts) uint64) float64 {
		return max(0, float64(int64(of(to.done)-of(from.done)))/span)
	}
	put = per(func(a ledger.Accounts) uint64 { return a.Delivered + a.LateKept })
	dropped = per(func(a ledger.Accounts) (sum uint64) {
		for _, d := range a.Drops() {
			sum += d.Count
		}
		return sum - a.RateLimited
	})
	return put, dropped
}

// ages are the mean ages between two looks, not a number where they are not known.
func (p *history) ages() []float64 {
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

// Used is what the column USED has of a mirror, as a share; not a number when it is not known
// or there is no such mirror. Tests use it to compare top with what other tools say.
func Used(s api.StatusReply, mirror string) float64 {
	var m model
	m.take(statusMsg{StatusReply: s})
	for _, r := range m.rows {
		if r.name == mirror {
			return r.used
		}
	}
	return math.NaN()
}
