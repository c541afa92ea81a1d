package mirror

import (
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// frames is what is known of the frames that came for a mirror. It is under the mirror's mu.
type frames struct {
	capturedAt time.Duration // of the newest frame in the file, by the peer's clock; 0: unknown
	putAt      time.Duration // of that frame, by the node's clock; 0: none was put
	size       int           // bytes that the frame which came last took on its way
	transit    time.Duration // age at arrival of the last frame whose age was known; 0: none was
	ages       ages
	pace       ledger.Pace
	recent     delivery.Recent // of those that the present subscription brought
	lateness   lateness
	lacking    lacking
	pending    pending
}

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
	if a.From != m.source.feed {
		return
	}
	first := m.frames.recent.Add(a.Seq)
	m.measure(a, first)
	again := !first && a.Seq == m.frames.lacking.seq // it came before, and the file lacks it
	late := m.late(a)
	stray := !m.ready() || a.Epoch != m.file.tag.Epoch
	old := a.Seq <= max(m.file.tag.Seq, m.frames.pending.seq) || a.Seq < m.file.least
	drop := late && !m.lateIsPut(a)
	switch {
	case !first && (!again || stray || old || drop):
		m.counters.own.Duplicate++
	case stray:
		m.counters.own.Refused++
	case old:
		m.counters.own.Superseded++ // a newer one has overtaken it
	case drop:
		m.counters.own.Late++
		m.without(a.Seq, &m.counters.own.Late)
		m.frames.lateness.add(a.Seq, a.At.Now)
		m.frames.ages.Limit(a.At.Now, m.overAt(a.At.Now))
	default:
		if again && m.frames.lacking.counted != nil {
			*m.frames.lacking.counted-- // it counts as what becomes of it now
		}
		if a.Seq >= m.frames.lacking.seq {
			m.frames.lacking = lacking{}
		}
		m.keepOrWrite(a, late)
	}
}

// Came reports whether frame seq of a subscription has come before, and is not put again. It
// then counts as a duplicate.
func (m *Mirror) Came(from *Feed, seq uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from != m.source.feed || seq == m.frames.lacking.seq || !m.frames.recent.Has(seq) {
		return false
	}
	m.counters.own.Duplicate++
	return true
}

// ready reports whether there is a file; frames may overtake the origin's word that
// it lets us read. Needs m.mu.
func (m *Mirror) ready() bool {
	if err := m.make(); err != nil {
		m.failed("mirror cannot be made", err)
	}
	return m.file.w != nil && m.health.phase != closed
}

// measure notes how large a frame is that came, how long it took, and how often such
// come. Needs m.mu.
func (m *Mirror) measure(a Arrival, first bool) {
	m.frames.size = a.Sent
	if first && a.Epoch == m.file.tag.Epoch {
		m.frames.pace.Add(a.Seq, a.Captured)
	}
	if first && a.Captured != 0 && a.At.Known {
		m.frames.transit = max(a.At.Now-(a.Captured-a.At.Offset), 1)
	}
}

// transitMs returns the transit, nil if it is not known.
func (f *frames) transitMs() *float64 {
	if f.transit == 0 {
		return nil
	}
	v := status.Ms(f.transit)
	return &v
}

// lacking is the newest frame that came, if the mirror does not hold it. Its
// origin may send it once more, as a debt.
type lacking struct {
	seq     uint64
	counted *uint64 // where it is counted; nil: in no counter of this subscription
	owed    bool    // the origin is to be asked for it
}

// without notes that the mirror lacks frame seq, unless one that is newer still
// is lacking.
func (m *Mirror) without(seq uint64, counted *uint64) {
	if seq < m.frames.lacking.seq {
		return
	}
	m.frames.lacking = lacking{seq, counted, m.qos.Class != rule.Command && m.qos.Mode == rule.Newest}
}

// keepOrWrite needs m.mu.
func (m *Mirror) keepOrWrite(a Arrival, late bool) {
	if m.frames.pending.isRetried {
		if m.frames.pending.seq != 0 {
			m.counters.own.Superseded++
		}
		m.keep(a, late)
		return
	}
	switch err := m.write(incoming{a.Seq, a.Captured, a.At, late, a.Data}); {
	case isBusy(err):
		m.keep(a, late)
		m.frames.pending.isRetried = true
		m.frames.pending.waits.Start(a.At.Now)
		m.Spawn(m.retryPut)
	case err != nil:
		m.fail(a.Seq, err)
	default:
		m.counters.put(late)
	}
}
