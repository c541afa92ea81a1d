package mirror

import (
	"errors"
	"time"
)

// Output is a frame for the output of a mux.
type Output struct {
	Arrival
	Until  time.Duration // the frame must not be put from this time on, by the node's clock; 0 means no limit
	Input  uint8         // number of the input that wins, from 1; 0 means none
	IsSafe bool          // it is the safe frame
}

// PutNow puts a frame into the output of a mux. Its age is not checked, since the mux has done that. If a reader holds
// the file's lock, PutNow returns an error for which IsBusy is true; nothing has changed then. It does not block.
func (m *Mirror) PutNow(p Output) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case p.From != m.source.feed:
		return errors.New("its subscription has ended")
	case p.Until != 0 && m.Clock.now() >= p.Until:
		return errExpired
	case !m.ready():
		m.counters.own.Refused++
		return errors.New(m.health.reason)
	}
	if !p.IsSafe {
		m.measure(p.Arrival, true)
	}
	m.setInput(p.Input)
	err := m.write(incoming{p.Seq, p.Captured, p.At, false, p.Data})
	switch {
	case IsBusy(err):
	case err != nil:
		m.fail(p.Seq, err)
	case p.IsSafe:
		m.deadlineMonitor.safe++
		m.noteSafe(p.At.Now)
	default:
		m.counters.own.Delivered++
	}
	return err
}

// ShowInput writes into the metadata channel which input of the mux wins, from 1; 0 means none.
func (m *Mirror) ShowInput(number uint8) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setInput(number)
	m.writeMetadata()
}

// setInput sets the input for the next metadata. m.mu must be held.
func (m *Mirror) setInput(number uint8) {
	if m.file.meta != nil {
		m.file.meta.frame.Input = number
	}
}

// NewestPut describes the last frame that a mirror has put.
type NewestPut struct {
	Seq         uint64        // number in the ring
	Captured    time.Duration // capture time by this node's clock; 0 if unknown
	Uncertainty time.Duration // greatest error of Captured
	IsPermitted bool          // the operator lock still allows frames like it; true without a lock
}

// NewestPut returns the last frame that the mirror has put.
func (m *Mirror) NewestPut() NewestPut {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := NewestPut{Seq: m.file.putSeq, IsPermitted: m.frames.grant == m.source.right.Grant}
	if at, ok := m.frames.ages.Born(); ok && m.frames.capturedAt != 0 {
		p.Captured, p.Uncertainty = at, m.frames.ages.uncertainty
	}
	return p
}

// StampError returns the greatest error of the stamps in the newest frame, 0 if the mirror does not shift stamps.
func (m *Mirror) StampError() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stamps.source == nil {
		return 0
	}
	return time.Duration(m.stamps.status.ErrorMs * float64(time.Millisecond))
}
