package recording

import (
	"fmt"
	"strconv"
	"time"

	"achbridge/bridge/layout"
	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/config"
)

// Stamps describes the time stamps in the frames of a topic. They count by CLOCK_MONOTONIC of the host that recorded
// them, since the mirror shifted them to that clock.
type Stamps struct {
	Rule  stamps.Rule   // empty if the frames have no stamps, or if these are unknown
	Clock time.Duration // CLOCK_MONOTONIC less the time in the file
}

// Keys of stamps in the metadata of a topic.
const (
	stampsKey = "stamps"
	clockKey  = "stamps_clock_ns"
)

func (s Stamps) describe(metadata map[string]string) {
	if s.Rule != "" {
		metadata[stampsKey], metadata[clockKey] = string(s.Rule), strconv.FormatInt(int64(s.Clock), 10)
	}
}

// stampsOf returns the stamps in the metadata of a topic. A rule that is not valid is kept, so that frames with it are
// not played unshifted.
func stampsOf(metadata map[string]string) Stamps {
	clock, _ := strconv.ParseInt(metadata[clockKey], 10, 64)
	return Stamps{stamps.Rule(metadata[stampsKey]), time.Duration(clock)}
}

// stampsOfMirror notes where the frames of a mirror have stamps.
func (r *recorder) stampsOfMirror(m status.Mirror) {
	var now Stamps
	if m.Stamps != nil {
		now = Stamps{m.QoS.Stamps, r.mono - time.Duration(r.begun.UnixNano())}
	}
	r.mirrors.stamps[m.Name] = now
	if s := r.streams[m.Name]; s != nil && s.topic.Stamps != now {
		s.changeTopic(func(t *Topic) { t.Stamps = now })
	}
}

// isMismatch reports whether the frames of a topic lack the stamps of its rule, since they do not match the layout.
func (t Topic) isMismatch() bool { return t.Mismatch && t.Stamps.Rule.NeedsLayout() }

// restamper shifts the stamps of played frames to the present: a frame expires as long after its put as it did when it
// was recorded. Otherwise a command that was recorded before a reboot would be valid for days.
type restamper struct {
	of      Stamps
	shifter *stamps.Shifter
	buf     []byte
}

// newRestamper returns the restamper for the frames of a topic. It returns an error if their stamps cannot be shifted.
func newRestamper(t Topic) (r *restamper, err error) {
	rule, err := stamps.ParseRule(string(t.Stamps.Rule))
	var l *layout.Layout
	if err == nil && rule.NeedsLayout() && t.Type != nil {
		l, err = config.ReadLayout(t.Channel, []byte(t.Type.Layout))
	}
	var shifter *stamps.Shifter
	if err == nil {
		shifter, err = rule.Compile(l)
	}
	if err != nil {
		return nil, fmt.Errorf("its frames have time stamps that cannot be shifted to the present: %w", err)
	}
	return &restamper{of: t.Stamps, shifter: shifter}, nil
}

// restamped returns the frame with its stamps shifted from recordedAt, a time in the file, to now, by CLOCK_MONOTONIC.
// The result is valid until the next call.
func (r *restamper) restamped(frame []byte, recordedAt time.Time, now time.Duration) ([]byte, error) {
	by := now - r.of.Clock - time.Duration(recordedAt.UnixNano())
	out, _, err := r.shifter.Shift(r.buf[:0], frame, stamps.By{Time: by, Expiry: by})
	r.buf = out
	return out, err
}
