package bridge

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"achbridge/bridge/fresh"
)

// AgeStatus is how old a mirror's newest frame was over time: each number is of
// the time that a reader had a frame of that age, not of the frames.
type AgeStatus struct {
	// UncertaintyMs is what every age may be off, by what is known of the origin's
	// clock. The age begins when the origin's daemon saw the frame in its channel.
	UncertaintyMs float64     `json:"uncertainty_ms"`
	Window        *AgeFigures `json:"window"` // the last ten seconds, up to one more; null: the age was not known then
	Total         *AgeFigures `json:"total"`  // since the first frame whose age was known
	// Buckets are how long the age was at most so much since the first frame.
	Buckets []AgeBucket `json:"-"`
}

// AgeFigures sums up an age over time. A quantile is right to 8 µs or 0.4 %.
type AgeFigures struct {
	MeanMs     float64 `json:"mean_ms"`
	P50Ms      float64 `json:"p50_ms"`      // not exceeded during half of the time
	P99Ms      float64 `json:"p99_ms"`      // not exceeded during 99 % of the time
	PeakMs     float64 `json:"peak_ms"`     // the greatest, before a frame ended it or now
	OverBudget float64 `json:"over_budget"` // share of the time above the mirror's budget, 0 to 1
	WindowS    float64 `json:"window_s"`    // over how much time; time of unknown age does not count
}

// AgeBucket is the time at ages of at most Le.
type AgeBucket struct{ Le, Time time.Duration }

// AgeReport is what the age of one mirror was during a window.
type AgeReport struct {
	Host     string   `json:"host"`
	Channel  string   `json:"channel"`
	Name     string   `json:"mirrored_as"`
	BudgetMs float64  `json:"budget_ms"`
	AgeMs    *float64 `json:"age_ms"` // at its end; null while it cannot be told
	// UncertaintyMs is what every age may be off, by what is known of the origin's clock.
	UncertaintyMs float64     `json:"uncertainty_ms"`
	Window        *AgeFigures `json:"window"` // null: the age was not known
}

// Age watches the age of mirror name for a window, and waits that long. An error is
// fs.ErrNotExist when there is no such mirror, or ctx's.
func (n *Node) Age(ctx context.Context, name string, window time.Duration) (AgeReport, error) {
	var m *mirror
	n.call(func() { m = n.mirrors[name] })
	if m == nil {
		return AgeReport{}, fmt.Errorf("mirror %s: %w", name, fs.ErrNotExist)
	}
	m.mu.Lock()
	watch := m.ages.Watch(n.now())
	m.mu.Unlock()
	pause(ctx, window)
	n.call(func() { n.learnAge(m) })
	m.mu.Lock()
	defer m.mu.Unlock()
	now := n.now()
	return AgeReport{
		Host: m.host, Channel: m.channel, Name: name, BudgetMs: ms(m.qos.budget()), AgeMs: m.ages.now(now),
		UncertaintyMs: ms(m.ages.uncertainty), Window: ageFigures(m.ages.End(watch, now)),
	}, ctx.Err()
}

func (n *Node) learnAge(m *mirror) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.link != nil {
		m.learn(m.link.clockAt(n.now()))
	}
}

// ages are those of a mirror and how well they are known.
type ages struct {
	fresh.Ages
	uncertainty time.Duration
}

// age needs m.mu. It takes a frame that was put and was captured then by the
// peer's clock.
func (m *mirror) age(captured time.Duration, at reading) {
	m.learn(at)
	if captured == 0 || !at.known {
		m.ages.Lapse(at.now, m.qos.budget())
		return
	}
	m.ages.Put(at.now, captured-at.offset, m.qos.budget())
	m.ages.uncertainty = at.uncertainty
}

// learn needs m.mu. It tells the age of a frame that came before the peer's clock
// was known.
func (m *mirror) learn(at reading) {
	if at.known && m.captured != 0 && m.ages.Learn(m.captured-at.offset) {
		m.ages.uncertainty = at.uncertainty
	}
}

// now is the age at now, nil while nobody knows.
func (a *ages) now(now time.Duration) *float64 {
	v, ok := a.Now(now)
	if !ok {
		return nil
	}
	age := ms(v)
	return &age
}

// agesOver is nil before an age was known.
func (m *mirror) agesOver(now time.Duration) *AgeStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := &m.ages
	total, under := a.Total(now)
	if total.Span == 0 {
		return nil
	}
	s := &AgeStatus{UncertaintyMs: ms(a.uncertainty), Window: ageFigures(a.Window(now)), Total: ageFigures(total)}
	for i, t := range under {
		s.Buckets = append(s.Buckets, AgeBucket{fresh.AgeBounds[i], t})
	}
	return s
}

// AgeLately is what the age of a mirror was for a while.
type AgeLately struct {
	Name   string
	State  string // of the mirror, at its end
	MeanMs float64
	PeakMs float64
	Known  bool // whether the age was
}

// Lately tells of all mirrors, in no order, what their ages were since it was called
// last: it is for one caller, who draws them over time. It takes a µs for each.
func (n *Node) Lately() []AgeLately {
	var list []AgeLately
	n.call(func() {
		for _, m := range n.mirrors {
			list = append(list, m.lately(n.now()))
		}
	})
	return list
}

func (m *mirror) lately(now time.Duration) AgeLately {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.link != nil {
		m.learn(m.link.clockAt(now))
	}
	s := m.ages.Lately(now)
	return AgeLately{m.name, m.stateNow(), ms(s.Mean), ms(s.Peak), s.Span > 0}
}

func ageFigures(s fresh.AgeStat) *AgeFigures {
	if s.Span == 0 {
		return nil
	}
	return &AgeFigures{
		MeanMs: ms(s.Mean), P50Ms: ms(s.P50), P99Ms: ms(s.P99), PeakMs: ms(s.Peak),
		OverBudget: s.Over.Seconds() / s.Span.Seconds(), WindowS: s.Span.Seconds(),
	}
}

// clockAt reads the peer's clock.
func (l *link) clockAt(now time.Duration) reading {
	r := reading{now: now}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.offset, r.uncertainty, r.known = l.clock.Offset(now)
	return r
}

func (l *link) readClock() reading { return l.clockAt(l.n.now()) }

// now is the reading when it came, as of now.
func (k *kept) now() reading {
	at := k.at
	at.now += time.Since(k.came)
	return at
}
