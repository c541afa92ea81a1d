package mirror

import (
	"math"
	"time"

	"achbridge/bridge/age"
	"achbridge/bridge/status"
)

// WatchAge starts recording the mirror's age from now on. EndWatch stops the recording.
func (m *Mirror) WatchAge(now time.Duration) *age.Watch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.frames.ages.Watch(now)
}

// EndWatch returns the mirror's age since WatchAge returned watch. at holds the current estimate of the peer's
// clock.
func (m *Mirror) EndWatch(watch *age.Watch, now time.Duration, at Reading) status.AgeReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.learn(at)
	age := m.frames.ages.now(now)
	period, known := m.frames.pace.Period(m.qos.MaxRate.Interval())
	periodMs, _ := status.Due(age, period, known)
	return status.AgeReport{
		Host: m.Host, Channel: m.Channel, Name: m.Name, BudgetMs: status.Ms(m.qos.EffectiveBudget()), AgeMs: age, PeriodMs: periodMs,
		UncertaintyMs: status.Ms(m.frames.ages.uncertainty), Window: ageFigures(m.frames.ages.End(watch, now)),
	}
}

// ages holds the age of a mirror over time and its uncertainty.
type ages struct {
	age.History
	uncertainty time.Duration
}

// age records that a frame was put. captured is its capture time by the peer's clock, 0 if unknown. m.mu must be
// held.
func (m *Mirror) age(captured time.Duration, at Reading) {
	m.learn(at)
	if captured == 0 || !at.Known {
		m.frames.ages.Lapse(at.Now, m.overAt(at.Now))
		return
	}
	m.frames.ages.Put(at.Now, captured-at.Offset, m.overAt(at.Now))
	m.frames.ages.uncertainty = at.Uncertainty
}

// overAt returns the age above which the mirror is over budget: the budget plus the frame period. It returns the
// maximum while the period is unknown, and 0 while only late frames arrive. m.mu must be held.
func (m *Mirror) overAt(now time.Duration) time.Duration {
	if m.frames.lateness.only(now) {
		return 0
	}
	period, known := m.frames.pace.Period(m.qos.MaxRate.Interval())
	if budget := m.qos.EffectiveBudget(); known && budget <= math.MaxInt64-period {
		return budget + period
	}
	return math.MaxInt64
}

// learn sets the age of a frame that arrived before the peer's clock was known. m.mu must be held.
func (m *Mirror) learn(at Reading) {
	if at.Known && m.frames.capturedAt != 0 && m.frames.ages.Learn(m.frames.capturedAt-at.Offset) {
		m.frames.ages.uncertainty = at.Uncertainty
	}
}

// now returns the age in milliseconds at now. It returns nil while the age is unknown.
func (a *ages) now(now time.Duration) *float64 {
	v, ok := a.Now(now)
	if !ok {
		return nil
	}
	age := status.Ms(v)
	return &age
}

// Ages returns the mirror's age over time. It returns nil until an age is known.
func (m *Mirror) Ages(now time.Duration) *status.Age {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := &m.frames.ages
	total, under := a.Total(now)
	if total.Span == 0 {
		return nil
	}
	s := &status.Age{UncertaintyMs: status.Ms(a.uncertainty), Window: ageFigures(a.Window(now)), Total: ageFigures(total)}
	for i, t := range under {
		s.Buckets = append(s.Buckets, status.AgeBucket{Le: age.Bounds[i], Time: t})
	}
	return s
}

// Lately returns the ages since the previous call. Only one caller may use it.
func (m *Mirror) Lately(now time.Duration, at Reading) status.AgeLately {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.learn(at)
	s := m.frames.ages.Lately(now)
	return status.AgeLately{Name: m.Name, State: m.state(), MeanMs: status.Ms(s.Mean), PeakMs: status.Ms(s.Peak), Known: s.Span > 0}
}

func ageFigures(s age.Stat) *status.AgeFigures {
	if s.Span == 0 {
		return nil
	}
	return &status.AgeFigures{
		MeanMs: status.Ms(s.Mean), P50Ms: status.Ms(s.P50), P99Ms: status.Ms(s.P99), PeakMs: status.Ms(s.Peak),
		OverBudget: s.Over.Seconds() / s.Span.Seconds(), WindowS: s.Span.Seconds(),
	}
}

// asOf returns the clock reading taken at the frame's arrival, advanced to now.
func (k *kept) asOf(now time.Duration) Reading {
	at := k.at
	at.Now += now - k.keptAt
	return at
}
