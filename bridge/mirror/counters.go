package mirror

import (
	"math"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// counters counts the frames of a mirror by outcome, here and as the origin has told. It is under the mirror's mu.
type counters struct {
	own         ledger.Accounts
	ownBefore   ledger.Accounts // own when the present subscription began
	newest      *uint64         // where the newest frame of the file is counted; nil as for lacking
	origin      ledger.Accounts // both ends' counters, as the origin has told them last
	originUpTo  uint64          // newest frame in origin; 0: not known
	ownThen     ledger.Accounts // own at that time
	originCause status.Cause    // why the origin cannot read the channel, as it told last; empty: it can
	recent      ledger.Recent   // the sum over the last ten seconds
}

// begin prepares for another subscription.
func (c *counters) begin() { c.ownBefore, c.newest = c.own, nil }

// put counts a frame that was put.
func (c *counters) put(late bool) {
	c.newest = &c.own.Delivered
	if late {
		c.newest = &c.own.LateKept
	}
	*c.newest++
}

// all returns what the origin has told last, and what came since. newest is the newest frame that came.
func (c *counters) all(newest uint64) ledger.Accounts {
	put := uint64(math.MaxUint64) // an older origin does not tell up to which frame it counts
	if c.originUpTo != 0 {
		put = newest - min(newest, c.originUpTo)
	}
	return c.origin.With(c.own, c.ownThen, put)
}

// accounts needs m.mu.
func (m *Mirror) accounts() ledger.Accounts {
	return m.counters.all(max(m.file.tag.Seq, m.frames.lacking.seq, m.frames.pending.seq))
}

// Since is what became of the frames that the present subscription brought.
func (m *Mirror) Since() ledger.Accounts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counters.own.Minus(m.counters.ownBefore)
}

// Hear takes over the origin's ledger. It ignores an account with more frames than a channel can
// have, whose sums would wrap around. The account's cause is the reason why the origin
// cannot read the channel; empty: it can.
func (m *Mirror) Hear(a wire.Account) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counters.originCause = status.Cause(a.Cause)
	told := ledger.FromWire(a)
	if told.Most() > ledger.MostFrames {
		return
	}
	m.counters.origin, m.counters.ownThen, m.counters.originUpTo = told, m.counters.own, a.Newest
	m.frames.pace.Hear(told)
}

// AddTo adds to an account what only this host knows of the mirror.
func (m *Mirror) AddTo(a wire.Account, now time.Duration) wire.Account {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.Waited, a.Transit = uint64(m.frames.pending.waits.Total(now)), uint64(m.frames.transit)
	period, known := m.frames.pace.Period(m.qos.MaxRate.Interval())
	switch {
	case m.health.failure != "" || m.health.phase == refused:
		a.Cause = string(m.health.cause)
	case known && m.qos.Deadline > 0 && period > m.qos.Deadline:
		a.Cause = string(status.CausePublisherSlow) // only this host knows the deadline
	case m.frames.lateness.only(now):
		a.Cause = string(status.CauseBudget)
	}
	return a
}
