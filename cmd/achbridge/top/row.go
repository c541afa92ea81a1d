package top

import (
	"math"
	"strings"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

// channelRow is one channel as displayed by top. Unknown figures are NaN.
type channelRow struct {
	key, name, of string
	channel       string // the channel of this host
	host          string // the other host
	health        status.Health
	mark          string // displayed after the health, see diagnose.MarkOf
	reason        string
	age, mean     float64 // ms
	p99, budget   float64 // ms
	used          float64 // share of the budget, see diagnose.UsedOf
	put           float64 // frames a second that were put into the channel at its origin
	rate          float64 // frames a second that arrived
	drops         float64 // frames a second that were dropped, see history.rates
	ages          []float64
	in            bool      // a mirror; otherwise a subscription of a peer
	maxRate       rule.Rate // limit of the frame rate
	folded        int       // number of rows that this one replaces; 0 for a channel
}

// none is the value of a figure that is not known.
var none = math.NaN()

// isPaused reports whether top has paused the mirror.
func (r channelRow) isPaused() bool { return r.maxRate == paused }

// bad reports whether the row needs the user's attention.
func (r channelRow) bad() bool { return r.rank() > 0 || r.used > 1 }

// state returns the health with its mark.
func (r channelRow) state() string { return strings.TrimSpace(r.health.String() + " " + r.mark) }

// rank returns how bad the health is; 0 means live.
func (r channelRow) rank() int { return r.health.Rank() }

// why returns the health with its mark and its reason, "" if it is live and has no mark.
func (r channelRow) why() string {
	switch {
	case r.isPaused():
		return r.reason
	case r.rank() == 0 && r.mark == "":
		return ""
	}
	return strings.TrimSpace(r.word() + " " + r.reason)
}

// word returns the health with its mark, and a colon if a reason follows.
func (r channelRow) word() string {
	if r.reason == "" {
		return r.state()
	}
	return r.state() + ":"
}

// has reports whether the row contains the filter's text.
func (r channelRow) has(filter string) bool {
	return strings.Contains(strings.ToLower(r.name+" "+r.of+" "+r.state()), strings.ToLower(filter))
}

// way returns the direction of the frames: in to this host, or out to another.
func (r channelRow) way() string {
	if r.in {
		return "in"
	}
	return "out"
}

func mirrorRow(c status.Mirror, past *history) channelRow {
	r := channelRow{
		key: inKey(c), name: c.Name, channel: c.Name, of: c.Host + "/" + c.Channel, host: c.Host, maxRate: c.QoS.MaxRate, health: c.Health(), mark: diagnose.MarkOf(c.Unauthenticated), reason: diagnose.NoteOf(c), in: true,
		age: none, mean: none, p99: none, ages: past.ages(),
	}
	if r.isPaused() {
		r.reason = "paused: p resumes it"
	}
	r.budget = ui.Milliseconds(c.QoS.EffectiveBudget())
	if c.AgeMs != nil {
		r.age = *c.AgeMs
	}
	if c.Age != nil && c.Age.Window != nil {
		r.mean, r.p99 = c.Age.Window.MeanMs, c.Age.Window.P99Ms
	}
	r.used = diagnose.UsedOf(c)
	r.put, r.rate, r.drops = past.rates()
	return r
}

func exportRow(e status.Subscription, past *history) channelRow {
	r := channelRow{
		key: outKey(e), name: e.Channel + " > " + e.Peer, channel: e.Channel, of: e.Peer, host: e.Peer, health: e.Health(), reason: e.Reason,
		age: none, mean: none, p99: none, budget: none, used: none,
	}
	r.put, r.rate, r.drops = past.rates()
	return r
}

// sample holds the figures of a channel in one status.
type sample struct {
	up   float64 // uptime of the daemon, s
	age  ageSoFar
	done ledger.FrameCounters
}

// ageSoFar is the integral of an age over time (ms times s) and that time (s).
type ageSoFar struct{ sum, span float64 }

// history has the latest samples of a channel, oldest first.
type history struct{ samples []sample }

const (
	keptSamples = 121
	rateSamples = 5 // a rate is measured over this many samples
)

// with returns a copy of p with one more sample.
func (p *history) with(s sample) *history {
	kept := p.samples[max(0, len(p.samples)-keptSamples+1):]
	return &history{append(kept[:len(kept):len(kept)], s)}
}

// rates returns the frames a second that were put into the channel, that arrived, and that were dropped. Frames that were skipped on
// purpose, for a newer one or by the rate limit, do not count as dropped.
func (p *history) rates() (put, arrived, dropped float64) {
	n := len(p.samples)
	if n < 2 {
		return none, none, none
	}
	from, to := p.samples[max(0, n-1-rateSamples)], p.samples[n-1]
	span := to.up - from.up
	per := func(of func(ledger.FrameCounters) uint64) float64 {
		return max(0, float64(int64(of(to.done)-of(from.done)))/span)
	}
	put = per(func(a ledger.FrameCounters) uint64 { return a.Offered })
	arrived = per(func(a ledger.FrameCounters) uint64 { return a.Delivered + a.LateKept })
	dropped = per(func(a ledger.FrameCounters) (sum uint64) {
		for _, d := range a.Drops() {
			sum += d.Count
		}
		return sum - a.RateLimited - a.Superseded
	})
	return put, arrived, dropped
}

// ages returns the mean age between each two samples, NaN if it is unknown.
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

// Shown returns the values that top displays for a mirror: its health, or "" if there is no such mirror, and the used share
// of its budget, NaN if unknown. Tests compare both with the output of other tools.
func Shown(s api.StatusReply, mirror string) (health string, used float64) {
	var m model
	m.take(statusMsg{StatusReply: s})
	for _, r := range m.rows {
		if r.name == mirror {
			return r.health.String(), r.used
		}
	}
	return "", math.NaN()
}
