package mirror

import (
	"errors"
	"time"

	"achbridge/bridge/clock"
	"achbridge/localach"
)

// PutInOrder puts the next frame of mode every. While a reader has the file's lock it waits,
// as long as still reports that the subscription lasts, with the peer's clock; if not, it
// returns false.
func (m *Mirror) PutInOrder(a Arrival, still func() (Reading, bool)) bool {
	for wait := busyRetry; m.putNext(a); wait = clock.Longer(wait, busyRetry, busySeldom) {
		time.Sleep(wait)
		var lasts bool
		if a.At, lasts = still(); !lasts {
			return false
		}
	}
	return true
}

// putNext puts the next frame of mode every. It reports whether the mirror's lock
// was taken, in which case nothing has happened. A frame of a subscription that has ended
// since it came is as good as lost: it may be of any age, and the mirror be one for
// commands by now.
func (m *Mirror) putNext(a Arrival) (busy bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.From != m.source.feed {
		return false
	}
	switch {
	case !m.ready() || a.Epoch != m.file.tag.Epoch:
		m.counters.own.Refused++
	case a.Seq <= m.file.tag.Seq || a.Seq < m.file.least:
		m.counters.own.Duplicate++
	case m.late(a) && !m.lateIsPut(a): // no stream of ours has a budget: whatever changes, no old command is put
		m.counters.own.Late++
	default:
		m.measure(a, true)
		err := m.write(incoming{a.Seq, a.Captured, a.At, false, a.Data})
		if isBusy(err) {
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

func isBusy(err error) bool { return errors.Is(err, localach.ErrBusy) }
