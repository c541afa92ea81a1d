package mirror

import (
	"math"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// Arrival is a frame that has come for a mirror.
type Arrival struct {
	From       *Feed
	Epoch, Seq uint64
	Captured   time.Duration // by the peer's clock; 0: unknown
	Owed       bool          // it may be put past its budget
	Past       bool          // its origin says that it is past its budget, whether or not it may be put all the same
	At         Reading
	Data       []byte
	Sent       int // bytes that it took on its way
}

// Put brings a frame into the mirror if it is newer than what is there and, where it
// must be, in time. It waits for nobody: if a local reader sits on the lock, the newest
// frame is kept and put as soon as the lock is free. A frame of a subscription that
// has ended since it came is as good as lost: the next one brings the newest, and
// numbers of another life must not be taken for those that it brings.
func (m *Mirror) Put(a Arrival) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.From != m.feed {
		return
	}
	first := m.recent.Add(a.Seq)
	m.measure(a, first)
	again := !first && a.Seq == m.lacking.seq // it came before, and the file lacks it
	late := m.late(a)
	stray := !m.ready() || a.Epoch != m.tag.Epoch
	old := a.Seq <= max(m.tag.Seq, m.pending.seq) || a.Seq < m.least
	drop := late && !m.lateIsPut(a)
	switch {
	case !first && (!again || stray || old || drop):
		m.count.Duplicate++
	case stray:
		m.count.Refused++
	case old:
		m.count.Superseded++ // a newer one has overtaken it
	case drop:
		m.count.Late++
		m.without(a.Seq, &m.count.Late)
		m.lateness.add(a.Seq, a.At.Now)
		m.ages.Limit(a.At.Now, m.overAt(a.At.Now))
	default:
		if again && m.lacking.counted != nil {
			*m.lacking.counted-- // it counts as what becomes of it now
		}
		if a.Seq >= m.lacking.seq {
			m.lacking = lacking{}
		}
		m.keepOrWrite(a, late)
	}
}

// Came reports whether frame seq of a subscription has come before, and is not put again. It
// then counts as a duplicate.
func (m *Mirror) Came(from *Feed, seq uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from != m.feed || seq == m.lacking.seq || !m.recent.Has(seq) {
		return false
	}
	m.count.Duplicate++
	return true
}

// ready reports whether there is a file; frames may overtake the origin's word that
// it lets us read. Needs m.mu.
func (m *Mirror) ready() bool {
	if err := m.make(); err != nil {
		m.failed("mirror cannot be made", err)
	}
	return m.w != nil && !m.ending
}

// measure notes how large a frame is that came, how long it took, and how often such
// come. Needs m.mu.
func (m *Mirror) measure(a Arrival, first bool) {
	m.bytes = a.Sent
	if first && a.Epoch == m.tag.Epoch {
		m.pace.Add(a.Seq, a.Captured)
	}
	if first && a.Captured != 0 && a.At.Known {
		m.transit = max(a.At.Now-(a.Captured-a.At.Offset), 1)
	}
}

// transitMs needs m.mu.
func (m *Mirror) transitMs() *float64 {
	if m.transit == 0 {
		return nil
	}
	v := status.Ms(m.transit)
	return &v
}

// lacking is the newest frame that came, if the mirror does not hold it. Its
// origin may send it once more, as a debt.
type lacking struct {
	seq     uint64
	counted *uint64 // where it is counted, nil if in no account of this subscription
}

// without notes that the mirror lacks frame seq, unless one that is newer still
// is lacking.
func (m *Mirror) without(seq uint64, counted *uint64) {
	if seq < m.lacking.seq {
		return
	}
	m.lacking = lacking{seq, counted}
	m.owed = m.qos.Class != rule.Command && m.qos.Mode == rule.Newest
}

// keepOrWrite needs m.mu.
func (m *Mirror) keepOrWrite(a Arrival, late bool) {
	if m.waiting {
		if m.pending.seq != 0 {
			m.count.Superseded++
		}
		m.keep(a, late)
		return
	}
	switch err := m.write(incoming{a.Seq, a.Captured, a.At, late, a.Data}); {
	case isBusy(err):
		m.keep(a, late)
		m.waiting = true
		m.waits.Start(a.At.Now)
		m.Spawn(m.retryPut)
	case err != nil:
		m.fail(a.Seq, err)
	default:
		m.counted(late)
	}
}

// counted counts a frame that was put.
func (m *Mirror) counted(late bool) {
	m.held = &m.count.Delivered
	if late {
		m.held = &m.count.LateKept
	}
	*m.held++
}

// Since is what became of the frames that the present subscription brought.
func (m *Mirror) Since() ledger.Accounts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count.Minus(m.base)
}

// Hear takes over the origin's ledger. It ignores an account with more frames than a channel can
// have, whose sums would wrap around. The account's cause is the reason why the origin
// cannot read the channel; empty: it can.
func (m *Mirror) Hear(a wire.Account) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.originCause = status.Cause(a.Cause)
	told := ledger.FromWire(a)
	if told.Most() > ledger.MostFrames {
		return
	}
	m.told, m.heard, m.toldUpTo = told, m.count, a.Newest
	m.pace.Hear(told)
}

// AddTo adds to an account what only this host knows of the mirror.
func (m *Mirror) AddTo(a wire.Account, now time.Duration) wire.Account {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.Waited, a.Transit = uint64(m.waits.Total(now)), uint64(m.transit)
	period, known := m.pace.Period(m.qos.MaxRate.Interval())
	switch {
	case m.failure != "" || m.state == status.MirrorRefused:
		a.Cause = string(m.cause)
	case known && m.qos.Deadline > 0 && period > m.qos.Deadline:
		a.Cause = string(status.CausePublisherSlow) // only this host knows the deadline
	case m.lateness.only(now):
		a.Cause = string(status.CauseBudget)
	}
	return a
}

// accounts is the ledger: what the origin told last, and what came since. Needs
// m.mu.
func (m *Mirror) accounts() ledger.Accounts {
	put := uint64(math.MaxUint64) // an older origin does not tell up to which frame it counts
	if m.toldUpTo != 0 {
		newest := max(m.tag.Seq, m.lacking.seq, m.pending.seq)
		put = newest - min(newest, m.toldUpTo)
	}
	return m.told.With(m.count, m.heard, put)
}
