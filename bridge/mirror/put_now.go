package mirror

import (
	"errors"
	"time"
)

// errEnded is returned for a frame of a feed that does not feed the mirror any more.
var errEnded = errors.New("its subscription has ended")

// PutNow puts a frame into the output of a mux, unless a.From has ended. It is not judged by its age: the mux has done
// that. isSafe marks the safe frame. If a reader holds the file's lock, PutNow returns an error for which IsBusy is
// true; nothing has changed then. It does not block.
func (m *Mirror) PutNow(a Arrival, isSafe bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.From != m.source.feed {
		return errEnded
	}
	if !m.ready() {
		m.counters.own.Refused++
		return errors.New(m.health.reason)
	}
	if !isSafe {
		m.measure(a, true)
	}
	err := m.write(incoming{a.Seq, a.Captured, a.At, false, a.Data})
	switch {
	case IsBusy(err):
		return err
	case err != nil:
		m.fail(a.Seq, err)
		return err
	case isSafe:
		m.deadlineMonitor.safe++
		m.noteSafe(a.At.Now)
	default:
		m.counters.own.Delivered++
	}
	return nil
}

// ShowInput writes into the metadata channel which input of the mux wins, from 1; 0 means none.
func (m *Mirror) ShowInput(number uint8) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file.meta != nil {
		m.file.meta.frame.Input = number
		m.writeMetadata()
	}
}

// CapturedAt returns when the frame that has number put in the mirror's file was captured, by this node's clock, and
// the greatest error of that time. ok is false if that is unknown, or if a newer frame was put since.
func (m *Mirror) CapturedAt(put uint64) (at, uncertainty time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	captured, ok := m.frames.ages.Born()
	if !ok || put != m.file.putSeq || m.frames.capturedAt == 0 {
		return 0, 0, false
	}
	return captured, m.frames.ages.uncertainty, true
}

// StampError returns the greatest error of the stamps in the newest frame; ok is false if the mirror does not shift
// stamps.
func (m *Mirror) StampError() (err time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stamps.source == nil {
		return 0, false
	}
	return time.Duration(m.stamps.status.ErrorMs * float64(time.Millisecond)), true
}
