package mirror

import (
	"math"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// counters counts the frames of a mirror by outcome, here and at the origin. It is guarded by the mirror's mu.
type counters struct {
	own         ledger.FrameCounters
	ownBefore   ledger.FrameCounters // own when the current subscription began
	newest      *uint64              // the counter in own of the file's newest frame; nil if no counter of this subscription has it
	origin      ledger.FrameCounters // both ends' counters, as last reported by the origin
	originUpTo  uint64               // newest frame in origin; 0 if unknown
	ownThen     ledger.FrameCounters // own when origin was received
	originCause status.Cause         // why the origin cannot read the channel, as last reported by it; empty if it can
	recent      ledger.Recent        // samples of the last ten seconds
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

// all returns the counters last reported by the origin, plus the frames since. newest is the newest frame that
// arrived.
func (c *counters) all(newest uint64) ledger.FrameCounters {
	put := uint64(math.MaxUint64) // older origins do not report the newest frame they have counted
	if c.originUpTo != 0 {
		put = newest - min(newest, c.originUpTo)
	}
	return c.origin.With(c.own, c.ownThen, put)
}

// frameCounters returns the counters of both ends. m.mu must be held.
func (m *Mirror) frameCounters() ledger.FrameCounters {
	return m.counters.all(max(m.file.tag.Seq, m.frames.unwritten.seq, m.frames.pending.seq))
}

// Since returns the outcomes of the frames that arrived over the current subscription.
func (m *Mirror) Since() ledger.FrameCounters {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counters.own.Minus(m.counters.ownBefore)
}

// TakeReport stores the counters reported by the origin, and why the origin cannot read the channel; an empty cause
// means that it can. It ignores counters above ledger.MostFrames, whose sums could overflow.
func (m *Mirror) TakeReport(a wire.FrameCounters) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counters.originCause = status.Cause(a.Cause)
	reported := ledger.FromWire(a)
	if reported.Most() > ledger.MostFrames {
		return
	}
	m.counters.origin, m.counters.ownThen, m.counters.originUpTo = reported, m.counters.own, a.Newest
	m.frames.pace.TakeReport(reported)
}

// AddTo adds the values that only this host knows of the mirror to its counters.
func (m *Mirror) AddTo(a wire.FrameCounters, now time.Duration) wire.FrameCounters {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.Waited, a.OneWayDelay = uint64(m.frames.pending.waits.Total(now)), uint64(m.frames.oneWayDelay)
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
