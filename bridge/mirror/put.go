package mirror

import (
	"errors"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/ledger"
	"achbridge/bridge/operator"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// frames holds the state of the frames that arrived for a mirror. It is guarded by the mirror's mu.
type frames struct {
	capturedAt  time.Duration  // capture time of the newest frame in the file, by the peer's clock; 0 if unknown
	putAt       time.Duration  // when the newest frame was put, by the node's clock; 0 means never
	grant       operator.Grant // the grant with which the newest frame was put; zero without a lock, and for a safe frame
	size        int            // transmitted bytes of the frame that arrived last
	oneWayDelay time.Duration  // age at arrival of the last frame whose age was known; 0 if none
	ages        ages
	pace        ledger.Pace
	recent      delivery.Recent // frames that arrived over the current subscription
	lateness    lateness
	unwritten   unwritten
	pending     pending
}

// Arrival is a frame that arrived for a mirror.
type Arrival struct {
	From       *Feed
	Epoch, Seq uint64
	Captured   time.Duration // capture time by the peer's clock; 0 if unknown
	LastValue  bool          // the frame may be put although it is past its budget (last-value delivery)
	Past       bool          // the origin marked the frame as past its budget, even if it may be put
	At         Reading
	Data       []byte
	Sent       int // transmitted bytes
}

// Put puts a frame into the mirror if it is newer than the file's frames and not too late. It does not block:
// while a local reader holds the file's lock, the newest frame is kept and put as soon as the lock is free.
// Frames of an ended subscription are ignored: their numbers may belong to another epoch, and the next
// subscription sends the newest frame.
func (m *Mirror) Put(a Arrival) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.From != m.source.feed {
		return
	}
	first := m.frames.recent.Add(a.Seq)
	m.measure(a, first)
	again := !first && a.Seq == m.frames.unwritten.seq // the frame arrived before, but the file lacks it
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
		m.countLate(a.Seq)
		m.frames.lateness.add(a.Seq, a.At.Now)
		m.frames.ages.Limit(a.At.Now, m.overAt(a.At.Now))
	default:
		if again && m.frames.unwritten.counted != nil {
			*m.frames.unwritten.counted-- // the frame counts with its new outcome
		}
		if a.Seq >= m.frames.unwritten.seq {
			m.frames.unwritten = unwritten{}
		}
		m.keepOrWrite(a, late)
	}
}

// Came reports whether frame seq of a subscription arrived before and must not be put again. The frame then
// counts as a duplicate.
func (m *Mirror) Came(from *Feed, seq uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from != m.source.feed || seq == m.frames.unwritten.seq || !m.frames.recent.Has(seq) {
		return false
	}
	m.counters.own.Duplicate++
	return true
}

// ready reports whether there is a file. It creates a planned one, because frames may overtake the origin's
// Subscribed reply. m.mu must be held.
func (m *Mirror) ready() bool {
	if err := m.make(); err != nil {
		m.failed("mirror cannot be made", err)
	}
	return m.channel().file.w != nil && m.health.phase != closed
}

// measure records the size, one-way delay and period of a frame that arrived. m.mu must be held.
func (m *Mirror) measure(a Arrival, first bool) {
	m.frames.size = a.Sent
	if first && a.Epoch == m.file.tag.Epoch {
		m.frames.pace.Add(a.Seq, a.Captured)
	}
	if first && a.Captured != 0 && a.At.Known {
		m.frames.oneWayDelay = max(a.At.Now-(a.Captured-a.At.Offset), 1)
	}
}

// oneWayDelayMs returns the one-way delay in milliseconds. It returns nil if the delay is not known.
func (f *frames) oneWayDelayMs() *float64 {
	if f.oneWayDelay == 0 {
		return nil
	}
	v := status.Ms(f.oneWayDelay)
	return &v
}

// unwritten is the newest frame that arrived, if the file does not hold it. Its origin may retransmit it.
type unwritten struct {
	seq            uint64
	counted        *uint64 // the counter that includes the frame; nil if no counter of this subscription does
	mustRetransmit bool    // the origin must be asked to retransmit the frame
}

// without records that the file lacks frame seq, which counted includes. It does nothing if a newer frame is
// lacking.
func (m *Mirror) without(seq uint64, counted *uint64) {
	if seq < m.frames.unwritten.seq {
		return
	}
	m.frames.unwritten = unwritten{seq, counted, m.qos.Class != rule.Command && m.qos.Mode == rule.Newest}
}

// countLate counts a frame that arrived too late to be put. m.mu must be held.
func (m *Mirror) countLate(seq uint64) {
	m.counters.own.Late++
	m.without(seq, &m.counters.own.Late)
}

// keepOrWrite puts a frame, or keeps it for retryPut while the file's lock is taken or the stamps cannot be shifted.
// m.mu must be held.
func (m *Mirror) keepOrWrite(a Arrival, late bool) {
	if m.frames.pending.isRetried {
		if m.frames.pending.seq != 0 {
			m.counters.own.Superseded++
		}
		m.keep(a, late)
		return
	}
	switch err := m.write(incoming{a.Seq, a.Captured, a.At, late, a.Data}); {
	case errors.Is(err, errExpired):
		m.countLate(a.Seq)
	case IsBusy(err):
		m.keep(a, late)
		m.frames.pending.isRetried = true
		if !errors.Is(err, errNoOffset) {
			m.frames.pending.waits.Start(a.At.Now)
		}
		m.Spawn(m.retryPut)
	case err != nil:
		m.fail(a.Seq, err)
	default:
		m.counters.put(late)
	}
}
