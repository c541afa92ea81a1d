package mirror

import (
	"errors"
	"time"

	"achbridge/bridge/clock"
	"achbridge/localach"
)

// PutInOrder puts the next frame of mode every. It blocks while a reader holds the file's lock, or while the frame's stamps
// cannot be shifted. In a merge it also blocks until the frame's metadata, which names its origin, is written. still returns the
// current reading of the peer's clock, and whether the subscription lasts. PutInOrder returns false once it does not.
func (m *Mirror) PutInOrder(a Arrival, still func() (Reading, bool)) bool {
	isPut := false
	for wait := busyRetry; ; wait = clock.Longer(wait, busyRetry, busySeldom) {
		isPut = isPut || !m.putNext(a)
		if isPut && !m.lacksMetadata() {
			return true
		}
		time.Sleep(wait)
		var lasts bool
		if a.At, lasts = still(); !lasts {
			return false
		}
	}
}

// putNext puts the next frame of mode every. busy reports whether the file's lock was taken; nothing has changed
// then. It ignores frames of an ended subscription: their age is unlimited, and the mirror may be a command
// mirror by now.
func (m *Mirror) putNext(a Arrival) (busy bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.From != m.source.feed {
		return false
	}
	switch {
	case m.metadataWaits(): // the last frame of the previous subscription has no metadata yet
		return true
	case !m.ready() || a.Epoch != m.file.tag.Epoch:
		m.counters.own.Refused++
	case a.Seq <= m.file.tag.Seq || a.Seq < m.file.least:
		m.counters.own.Duplicate++
	case m.late(a) && !m.lateIsPut(a): // our streams have no budget, but an old command must never be put
		m.counters.own.Late++
	default:
		m.measure(a, true)
		err := m.write(incoming{a.Seq, a.Captured, a.At, false, a.Data})
		if IsBusy(err) {
			return true
		}
		if err != nil {
			m.fail(a.Seq, err)
			return false
		}
		m.counters.own.Delivered++
	}
	return false
}

// IsBusy reports whether a frame has to wait for the file's lock, or for the offset of its stamps.
func IsBusy(err error) bool { return errors.Is(err, localach.ErrBusy) || errors.Is(err, errNoOffset) }
