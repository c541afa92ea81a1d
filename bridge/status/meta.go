package status

import (
	"encoding/binary"
	"fmt"
	"time"

	"achbridge/bridge/rule"

	"golang.org/x/sys/unix"
)

// Meta is what the companion channel NAME.meta of a mirror with option meta tells of
// it, anew beside each put and whenever its link state changes. A program in any
// language can refuse old data by it, also when nothing arrives any more: the age of
// the mirror's newest frame is CLOCK_MONOTONIC now minus Captured, and may be off by
// Uncertainty. A frame of the companion has 64 bytes, little-endian:
//
//	offset  size  field
//	     0     4  "AMTA"
//	     4     1  1, the version of this layout
//	     5     1  link: 0 down, 1 up, 2 silent, 3 refused
//	     6     2  flags: 1 stale, 2 safe frame
//	     8     8  epoch        life of the origin's channel that the frame is of
//	    16     8  seq          number of the frame there; 0: no frame yet
//	    24     8  mirror seq   number of the frame in the mirror, as ach_get has it
//	    32     8  captured     when the origin's daemon saw the frame, in ns of this
//	                           host's CLOCK_MONOTONIC; 0: not known
//	    40     8  put          when it was put into the mirror, likewise; 0: not known
//	    48     8  uncertainty  of captured, in ns, by what is known of the origin's clock
//	    56     8  deadline     of the mirror, in ns; 0: none
//
// Frames that the bridge leaves out are not missing in the mirror: it is a ring of its own,
// whose frames are numbered without a hole, so that a reader of it sees none. How many were
// left out between two frames of the companion is the growth of seq less the growth of mirror
// seq, as long as epoch stays and neither goes back; what else is put there, the safe frame
// or somebody else's, counts as one less.
//
// A daemon that was killed leaves the link up: only the age tells.
//
// While this host is suspended its CLOCK_MONOTONIC stands still, so that an age does not
// count that time: after it the data is older than it looks, until the next put. Who must
// know compares CLOCK_BOOTTIME less CLOCK_MONOTONIC, which has grown by as much, with
// what it was when the frame was read. What the origin's daemon had seen before the
// origin's host was suspended is older than it looks likewise.
type Meta struct {
	Link                  MetaLink
	Stale                 bool // no frame came for the deadline
	Safe                  bool // the newest frame of the mirror is the safe frame of on_stale
	Epoch, Seq, MirrorSeq uint64
	Captured, Put         time.Duration // of CLOCK_MONOTONIC
	Uncertainty, Deadline time.Duration
}

// MetaLink is what feeds the mirror.
type MetaLink uint8

// The link states.
const (
	MetaDown    MetaLink = iota // no link, or the origin does not offer the channel
	MetaUp                      // frames come when the origin puts some
	MetaSilent                  // the origin's host is not heard
	MetaRefused                 // a rule, or the mirror's file; the daemon's log says why
)

var metaLinks = []string{"down", "up", "silent", "refused"}

// String prints the state as people read it.
func (l MetaLink) String() string { return rule.Word(metaLinks, l) }

// MetaSize is the size in bytes of a companion's frames.
const MetaSize = 64

const (
	metaMagic   = "AMTA"
	metaVersion = 1

	MetaStale = 1 << 0 // flags of a frame; tests look at them
	MetaSafe  = 1 << 1 // as MetaStale, for tests
)

// Append appends the frame that tells m.
func (m Meta) Append(dst []byte) []byte {
	flags := uint16(0)
	if m.Stale {
		flags |= MetaStale
	}
	if m.Safe {
		flags |= MetaSafe
	}
	dst = append(dst, metaMagic...)
	dst = append(dst, metaVersion, byte(m.Link))
	dst = binary.LittleEndian.AppendUint16(dst, flags)
	for _, v := range [...]uint64{m.Epoch, m.Seq, m.MirrorSeq, uint64(m.Captured), uint64(m.Put), uint64(m.Uncertainty), uint64(m.Deadline)} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}

// ParseMeta reads what Append writes.
func ParseMeta(b []byte) (Meta, error) {
	if len(b) != MetaSize || string(b[:4]) != metaMagic {
		return Meta{}, fmt.Errorf("not a frame of a companion channel: %d bytes", len(b))
	}
	if b[4] != metaVersion {
		return Meta{}, fmt.Errorf("frame of a companion channel: version %d is not known here", b[4])
	}
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	flags := binary.LittleEndian.Uint16(b[6:])
	return Meta{
		Link: MetaLink(b[5]), Stale: flags&MetaStale != 0, Safe: flags&MetaSafe != 0,
		Epoch: word(8), Seq: word(16), MirrorSeq: word(24),
		Captured: time.Duration(word(32)), Put: time.Duration(word(40)),
		Uncertainty: time.Duration(word(48)), Deadline: time.Duration(word(56)),
	}, nil
}

// Monotonic is the host's CLOCK_MONOTONIC at t, a time that has Go's monotonic reading,
// which runs on the same clock.
func Monotonic(t time.Time) time.Duration {
	var ts unix.Timespec
	before := time.Since(t)
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock_gettime: " + err.Error()) // there is no Linux without it
	}
	return time.Duration(ts.Nano()) - (before+time.Since(t))/2
}
