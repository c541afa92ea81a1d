package mux

import (
	"time"

	"achbridge/bridge/phases"
)

// selector decides which input of a mux wins, and when frames are put. Inputs are numbered by priority: 0 is the
// highest. It reads no clock: the caller passes the time, which must not go backwards.
type selector struct {
	hold      time.Duration // how long an expired input must be live before it wins again
	catchUp   bool          // an input that wins puts its last live frame at once
	needsSafe bool          // the safe frame must be put as soon as no input is live
	inputs    []inputState
}

// inputState is the state of an input: whether it is live, and whether its newest frame was put.
type inputState struct {
	phase     phase
	until     time.Duration // the newest frame is live before this time
	revivedAt time.Duration // in phase held: when a live frame arrived again
	isUnsent  bool          // the newest frame may still be put
}

// phase is the phase of an input.
type phase uint8

const (
	silent phase = iota // no live frame has arrived yet
	live
	expired // the newest frame is not live any more
	held    // the input expired and is live again, but not yet for long enough to win
)

var transitions = phases.Transitions[phase]{
	silent:  {live},
	live:    {expired, silent},
	expired: {live, held, silent},
	held:    {live, expired, silent},
}

// String returns the phase as the status shows it.
func (p phase) String() string { return [...]string{"silent", "live", "expired", "held"}[p] }

// none means no input.
const none = -1

// newSelector returns a selector for a number of inputs without frames.
func newSelector(inputs int, hold time.Duration, catchUp bool) *selector {
	return &selector{hold: hold, catchUp: catchUp, inputs: make([]inputState, inputs)}
}

// frame records that a new frame of an input arrived, which is live before until.
func (s *selector) frame(i int, now, until time.Duration) {
	s.advance(now)
	in := &s.inputs[i]
	in.until, in.isUnsent = until, until > now
	switch {
	case !in.isUnsent && in.phase != silent:
		transitions.Move(&in.phase, expired)
	case in.isUnsent && in.phase == silent, in.isUnsent && in.phase == expired && s.hold == 0:
		transitions.Move(&in.phase, live)
	case in.isUnsent && in.phase == expired:
		transitions.Move(&in.phase, held)
		in.revivedAt = now
	}
}

// found records a frame that an input had before the mux began. The input becomes live; the frame is not put, as an
// earlier daemon may have put it.
func (s *selector) found(i int, now, until time.Duration) {
	s.frame(i, now, until)
	s.inputs[i].isUnsent = false
}

// suspended makes all inputs expire until their next frames, since the clock stopped.
func (s *selector) suspended() {
	for i := range s.inputs {
		in := &s.inputs[i]
		in.until, in.isUnsent = 0, false
		if in.phase != silent {
			transitions.Move(&in.phase, expired)
		}
	}
}

// reset makes an input silent, so that its next live frame wins without the hold.
func (s *selector) reset(i int) {
	in := &s.inputs[i]
	in.until, in.isUnsent = 0, false
	transitions.Move(&in.phase, silent)
}

// advance makes inputs expire whose time is over at now, and ends phase held of inputs that have been live for long
// enough.
func (s *selector) advance(now time.Duration) {
	for i := range s.inputs {
		in := &s.inputs[i]
		switch {
		case in.phase == silent || in.phase == expired:
		case now >= in.until:
			transitions.Move(&in.phase, expired)
			in.isUnsent = false
		case in.phase == held && now-in.revivedAt >= s.hold:
			transitions.Move(&in.phase, live)
		}
	}
}

// decision is what to do at a time.
type decision struct {
	winner int           // the first live input, or none
	put    int           // the input whose newest frame must be put, or none
	safe   bool          // the safe frame must be put
	next   time.Duration // when to decide again if no frame arrives; 0 means never
}

// decide returns what to do at now. Frames of inputs that do not win are not put later, except the newest with catchUp.
// After the put, the caller calls sent; without that call the frame or the safe frame is due again.
func (s *selector) decide(now time.Duration) decision {
	s.advance(now)
	d := decision{winner: none, put: none}
	for i := range s.inputs {
		in := &s.inputs[i]
		if in.phase == live && d.winner == none {
			d.winner = i
			if in.isUnsent {
				d.put = i
			}
		} else if !s.catchUp {
			in.isUnsent = false
		}
		if in.phase == live || in.phase == held {
			d.next = earlier(d.next, in.until)
		}
		if in.phase == held {
			d.next = earlier(d.next, in.revivedAt+s.hold)
		}
	}
	d.safe = d.winner == none && s.needsSafe
	return d
}

// sent records that the frame or the safe frame of a decision was put.
func (s *selector) sent(d decision) {
	if d.put != none {
		s.inputs[d.put].isUnsent = false
	}
	s.needsSafe = !d.safe
}

func earlier(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}
