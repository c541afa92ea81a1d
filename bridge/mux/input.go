package mux

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	shifter *stamps.Shifter // judges the expiry in stamps; nil for an input with live

	ch       *localach.Channel // nil if the channel is not open
	arrivals *ring.Arrivals
	reader   *localach.Reader
	frame    []byte        // newest frame
	captured time.Duration // when it was captured, by the node's clock; 0 means unknown
	error    time.Duration // greatest error of captured
	isNew    bool          // no former mux had the input
	isBusy   bool          // there is a newer frame, and the channel's lock was taken
	scratch  []byte

	reason   string // why the newest frame cannot be live, or why there is none; empty if neither is so
	inFuture bool   // the newest frame's stamp is in the future, and no event was recorded for it
	frames   uint64 // frames that were read
	put      uint64 // frames that were put into the output
	refused  uint64 // frames whose expiry or capture time is unknown
}

// maxAhead is how far a stamp may be ahead of this host's clock, beyond the clock's error. A frame that is further ahead
// would be live too long, since its clock is not this host's.
const maxAhead = 100 * time.Millisecond

// open opens the input's channel if it is not open, and closes it if its file has changed.
func (in *input) open(cfg *Config, wake func()) {
	if in.ch != nil && (in.Denied != "" || in.ch.Check() != nil) {
		in.close()
	}
	switch {
	case in.Denied != "":
		in.reason = in.Denied
		return
	case in.ch != nil:
		return
	}
	ch, err := cfg.Dir.TryOpen(in.Channel)
	if err == nil {
		if err = ch.Check(); err != nil {
			ch.Close()
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		in.reason = "there is no such channel"
		return
	case err != nil:
		in.reason = err.Error()
		return
	}
	in.ch, in.reader, in.arrivals, in.reason = ch, ch.Reader(), ring.NewArrivals(ch, cfg.Clock), ""
	in.arrivals.SetCommand(true)
	in.arrivals.Watch(cfg.Source, wake)
}

// close closes the input's channel. Its newest frame stays live until its end.
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
	if in.ch == nil {
		return 0, false
	}
	in.isBusy = false
	arrival := in.arrivals.Collect()
	n, err := in.reader.TryNext(in.frame[:cap(in.frame)])
	if errors.Is(err, io.ErrShortBuffer) && n <= wire.MaxFrame {
		in.frame = make([]byte, n)
		n, err = in.reader.TryNext(in.frame)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, false // no new frame
	case errors.Is(err, localach.ErrBusy), errors.Is(err, io.ErrShortBuffer):
		in.isBusy = true
		return 0, false
	case err != nil:
		in.reader.Skip()
		in.reason = err.Error()
		return 0, false
	}
	in.frame = in.frame[:n]
	in.frames++
	in.readCaptured(cfg, arrival)
	return in.judge(cfg), true
}

// readCaptured determines when the newest frame was captured; in.captured is 0 if that is unknown.
func (in *input) readCaptured(cfg *Config, arrival ring.Arrival) {
	in.captured, in.error = arrival.CapturedAt, 0
	switch {
	case in.Mirror != nil:
		in.captured, in.error, _ = in.Mirror.CapturedAt(in.reader.Seq())
	case arrival.Seq != in.reader.Seq(): // put just now
		in.captured = cfg.Clock.UnseenSince(cfg.Clock.Now())
	}
}

// judge returns the time before which the newest frame is live. It sets the reason if the frame is not live.
func (in *input) judge(cfg *Config) (until time.Duration) {
	in.reason = ""
	if in.shifter == nil {
		if in.captured == 0 {
			in.refuse("the age of its newest frame is not known")
			return 0
		}
		return in.captured + in.Live - in.error
	}
	b, e, err := in.shifter.Shift(in.scratch[:0], in.frame, stamps.By{})
	in.scratch = b
	now := cfg.Clock.Now()
	var stampError time.Duration
	if in.Mirror != nil {
		stampError, _ = in.Mirror.StampError()
	}
	switch ahead := e.Made - cfg.monotonic(now); {
	case err != nil:
		in.refuse(err.Error())
	case !e.IsKnown:
		in.refuse("its newest frame has no expiry")
	case ahead > stampError+maxAhead:
		in.inFuture = true
		in.refuse(fmt.Sprintf("the time in its newest frame is %s in the future", unit.Time(ahead.Round(time.Millisecond))))
	default:
		return e.At - cfg.At + 1 // at e.At the frame is still live
	}
	return 0
}

func (in *input) refuse(why string) { in.reason, in.refused = why, in.refused+1 }
