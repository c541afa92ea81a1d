package status

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"achbridge/bridge/rule"

	"golang.org/x/sys/unix"
)

// Meta is a frame of the metadata channel NAME.meta, which a mirror with option meta has. The daemon writes one
// after each put and when the link state changes. With it, a program in any language can refuse old data, even
// when nothing arrives any more. The age of the mirror's newest frame is the current CLOCK_MONOTONIC minus
// Captured, plus or minus Uncertainty. The frame has 64 bytes, or 128 in the output of a merge, little-endian:
//
//	offset  size  field
//	     0     4  "AMTA"
//	     4     1  1, the version of this layout
//	     5     1  link: 0 down, 1 up, 2 silent, 3 refused
//	     6     1  flags: 1 stale, 2 safe frame, 4 the frame has 128 bytes, with an origin
//	     7     1  input: of the output of a mux, the number of the input that is live
//	              and has the highest priority, from 1; 0 if none is, and in mirrors
//	     8     8  epoch        epoch of the origin's channel that the frame is from
//	    16     8  seq          number of the frame at the origin, 0 before the first
//	    24     8  mirror seq   number of the frame in the mirror, as ach_get returns it
//	    32     8  captured     when the origin's daemon saw the frame, in ns of this
//	                           host's CLOCK_MONOTONIC, or 0 if unknown
//	    40     8  put          when the frame was put into the mirror, in the same
//	                           unit, or 0 if unknown
//	    48     8  uncertainty  of captured, in ns, due to the estimate of the origin's clock
//	    56     8  deadline     of the mirror, in ns, or 0 if it has none
//	    64    64  origin       name of the host that the frame is from, and zeros; only in the
//	                           output of a merge, where all values are about frames of that host
//
// Frames that the bridge omits leave no gap in the mirror: its ring has its own numbers, without gaps. The
// number of frames omitted between two metadata frames is the growth of seq minus the growth of mirror seq. This
// holds while epoch is unchanged and neither number goes back. Each safe frame or foreign frame in the mirror
// reduces the result by one.
//
// A daemon that was killed leaves the link state up. Only the age shows that it is gone.
//
// CLOCK_MONOTONIC stops while this host is suspended, so ages do not include that time. Afterwards the data is
// older than its age, until the next put. To detect this, compare CLOCK_BOOTTIME minus CLOCK_MONOTONIC with its
// value when the frame was read: it has grown by the suspended time. In the same way, data that the origin's
// daemon saw before a suspend of its host is older than its age.
type Meta struct {
	Link                  MetaLink
	Stale                 bool // no frame arrived within the deadline
	Safe                  bool // the newest frame of the mirror is the safe frame of on_stale or of the mux
	Input                 uint8
	Epoch, Seq, MirrorSeq uint64
	Captured, Put         time.Duration // in CLOCK_MONOTONIC of this host
	Uncertainty, Deadline time.Duration
	Origin                string // host that the frame is from, in the output of a merge; otherwise empty
}

// MetaLink is the state of the link that feeds the mirror.
type MetaLink uint8

// Link states.
const (
	MetaDown    MetaLink = iota // no link, or the origin does not offer the channel
	MetaUp                      // frames arrive when the origin puts them
	MetaSilent                  // nothing is received from the origin's host
	MetaRefused                 // a rule or the mirror's file prevents it; the daemon's log has the reason
)

var metaLinks = []string{"down", "up", "silent", "refused"}

// String returns the state in readable form.
func (l MetaLink) String() string { return rule.ValueName(metaLinks, l) }

// MetaSize is the size of a metadata frame in bytes, and MergeMetaSize that of a frame with an origin.
const (
	MetaSize      = 64
	MergeMetaSize = MetaSize + 64
)

const (
	metaMagic   = "AMTA"
	metaVersion = 1

	MetaStale = 1 << 0 // flag of a frame; exported for tests
	MetaSafe  = 1 << 1 // flag of a frame; exported for tests
	metaMerge = 1 << 2
)

// Append appends the encoded frame to dst.
func (m Meta) Append(dst []byte) []byte {
	flags := byte(0)
	if m.Stale {
		flags |= MetaStale
	}
	if m.Safe {
		flags |= MetaSafe
	}
	if m.Origin != "" {
		flags |= metaMerge
	}
	dst = append(dst, metaMagic...)
	dst = append(dst, metaVersion, byte(m.Link), flags, m.Input)
	for _, v := range [...]uint64{m.Epoch, m.Seq, m.MirrorSeq, uint64(m.Captured), uint64(m.Put), uint64(m.Uncertainty), uint64(m.Deadline)} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	if m.Origin != "" {
		var origin [MergeMetaSize - MetaSize]byte
		copy(origin[:], m.Origin)
		dst = append(dst, origin[:]...)
	}
	return dst
}

// ParseMeta decodes a frame encoded by Append.
func ParseMeta(b []byte) (Meta, error) {
	if len(b) != MetaSize && len(b) != MergeMetaSize || string(b[:4]) != metaMagic || (len(b) == MergeMetaSize) != (b[6]&metaMerge != 0) {
		return Meta{}, fmt.Errorf("not a frame of a metadata channel: %d bytes", len(b))
	}
	if b[4] != metaVersion {
		return Meta{}, fmt.Errorf("frame of a metadata channel: unknown version %d", b[4])
	}
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	flags := b[6]
	return Meta{
		Link: MetaLink(b[5]), Stale: flags&MetaStale != 0, Safe: flags&MetaSafe != 0, Input: b[7],
		Epoch: word(8), Seq: word(16), MirrorSeq: word(24),
		Captured: time.Duration(word(32)), Put: time.Duration(word(40)),
		Uncertainty: time.Duration(word(48)), Deadline: time.Duration(word(56)),
		Origin: string(bytes.TrimRight(b[MetaSize:], "\x00")),
	}, nil
}

// Monotonic converts t to the host's CLOCK_MONOTONIC. t must have Go's monotonic reading, which uses the same
// clock.
func Monotonic(t time.Time) time.Duration {
	var ts unix.Timespec
	before := time.Since(t)
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock_gettime: " + err.Error()) // there is no Linux without it
	}
	return time.Duration(ts.Nano()) - (before+time.Since(t))/2
}
