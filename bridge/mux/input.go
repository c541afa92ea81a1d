package mux

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"time"

	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/bridge/unit"
	"achbridge/localach"
	"achbridge/wire"
)

// input reads one input of a mux. It belongs to the mux's goroutine.
type input struct {
	rule.MuxInput
	InputFacts

	ch        *localach.Channel // nil if the channel is not open
	arrivals  *ring.Arrivals
	reader    *localach.Reader
	isChecked bool // the channel was opened, or does not exist
	mayBeOld  bool // a frame may be from before the mux began: an earlier daemon may have put it

	frame        []byte        // newest frame
	captured     time.Duration // when it was captured, by the node's clock; 0 means unknown
	captureError time.Duration // greatest error of captured
	isPermitted  bool          // the sender of the newest frame holds the operator lock
	isBusy       bool          // there is a newer frame that cannot be read yet
	scratch      []byte

	reason     string // why there is no newest frame, or why it cannot be live; otherwise empty
	isInFuture bool   // the newest frame's time is in the future, and no event was recorded for it
	frames     uint64 // frames that were read
	put        uint64 // frames that were put into the output
	refused    uint64 // frames without a valid expiry or capture time
}

const (
	// maxAhead is how far a stamp may be ahead of this host's clock, beyond the clock's error. A frame that is further
	// ahead would be live too long, since its clock is not this host's.
	maxAhead = 100 * time.Millisecond
	// mostOvertaken limits how often a read is repeated because a newer frame was put.
	mostOvertaken = 8
)

// open opens the input's channel if it is not open, and closes it if its file has changed.
func (in *input) open(cfg *Config, wake func()) {
	if in.ch != nil && (in.Problem != "" || in.ch.Check() != nil) {
		in.close()
	}
	switch {
	case in.Problem != "":
		in.reason = in.Problem
		return
	case in.ch != nil:
		return
	}
	ch, err := cfg.Dir.TryOpenToRead(in.Channel)
	if err == nil {
		if err = ch.Check(); err != nil {
			ch.Close()
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		in.reason, in.isChecked = "there is no such channel", true
		return
	case err != nil:
		in.reason = err.Error()
		return
	}
	in.ch, in.reader, in.arrivals, in.reason, in.isChecked = ch, ch.Reader(), ring.NewArrivals(ch, cfg.Clock), "", true
	in.arrivals.SetCommand(true)
	in.arrivals.Watch(cfg.Source, wake)
}

// close closes the input's channel. The newest frame is live until it expires.
func (in *input) close() {
	if in.ch == nil {
		return
	}
	in.arrivals.Stop()
	in.ch.Close()
	in.ch, in.arrivals, in.reader, in.isBusy = nil, nil, nil, false
}

// read reads a new frame. ok is false if there is none. until is the time before which the frame is live, by the
// node's clock; it is in the past if the frame is not live.
func (in *input) read(cfg *Config) (until time.Duration, ok bool) {
	in.isBusy = false
	if in.ch == nil || in.Problem != "" {
		return 0, false
	}
	for range mostOvertaken {
		arrival := in.arrivals.Collect()
		if !in.readFrame() {
			return 0, false
		}
		if in.readCaptured(cfg, arrival) {
			in.frames++
			return in.judge(cfg), true
		}
		in.isBusy = true // until the newer frame is read
	}
	return 0, false
}

// readFrame copies a new frame of the ring. It returns false if there is none, or if it cannot be read.
func (in *input) readFrame() (ok bool) {
	n, err := in.reader.TryNext(in.frame[:cap(in.frame)])
	if errors.Is(err, io.ErrShortBuffer) && n <= wire.MaxFrame {
		in.frame = make([]byte, n)
		n, err = in.reader.TryNext(in.frame)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // no new frame
	case errors.Is(err, localach.ErrBusy), errors.Is(err, io.ErrShortBuffer) && n <= wire.MaxFrame:
		in.isBusy = true
	case err != nil:
		in.reader.Skip()
		in.reason, in.isBusy = err.Error(), false
	default:
		in.frame, in.isBusy = in.frame[:n], false
		return true
	}
	return false
}

// readCaptured determines when the frame that was read was captured; in.captured is 0 if that is unknown. It returns
// false if the mirror that writes the channel has put a newer frame meanwhile.
func (in *input) readCaptured(cfg *Config, arrival ring.Arrival) (ok bool) {
	seq := in.reader.Seq()
	in.captured, in.captureError, in.isPermitted = arrival.CapturedAt, 0, false
	switch {
	case in.Mirror != nil:
		newest := in.Mirror.NewestPut()
		if newest.Seq == seq { // otherwise another program has put the frame
			in.captured, in.captureError, in.isPermitted = newest.Captured, newest.Uncertainty, newest.IsPermitted
		} else {
			in.captured = 0
		}
		return newest.Seq <= seq
	case arrival.Seq != seq: // put just now
		in.captured = cfg.Clock.UnseenSince(cfg.Clock.Now())
	}
	return true
}

// judge returns the time before which the newest frame is live. It sets the reason if it refuses the frame.
func (in *input) judge(cfg *Config) (until time.Duration) {
	in.reason = ""
	if in.Operator && !in.isPermitted {
		in.refuse("its newest frame is not of the host that holds its operator lock")
		return 0
	}
	if in.Live != 0 {
		if in.captured == 0 {
			in.refuse("the age of its newest frame is not known")
			return 0
		}
		return in.captured + in.Live - in.captureError
	}
	b, e, err := in.Shifter.Shift(in.scratch[:0], in.frame, stamps.By{})
	in.scratch = b
	now := cfg.Monotonic.Of(cfg.Clock.Now())
	var stampError time.Duration
	if in.Mirror != nil {
		stampError = in.Mirror.StampError()
	}
	switch {
	case err != nil:
		in.refuse(err.Error())
	case e.Passed(now):
	case !e.IsKnown:
		in.refuse("its newest frame has no expiry")
	case e.Made == 0:
		in.refuse("its newest frame has no time")
	case e.Made > now && e.Made-now > stampError+maxAhead:
		in.isInFuture = true
		in.refuse(fmt.Sprintf("the time in its newest frame is %s in the future", unit.Time((e.Made - now).Round(time.Millisecond))))
	default:
		return min(e.At, math.MaxInt64-1) - cfg.Monotonic.At + 1 // at e.At the frame is still live
	}
	return 0
}

func (in *input) refuse(why string) { in.reason, in.refused = why, in.refused+1 }
