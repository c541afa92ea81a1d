package bridge

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of frames per 1000 seconds; 0 is no limit.
type Rate uint32

// Interval is the time from one frame to the next, 0 without a limit.
func (r Rate) Interval() time.Duration {
	if r == 0 {
		return 0
	}
	return time.Duration(1000 * float64(time.Second) / float64(r))
}

// Hz is the limit in frames a second.
func (r Rate) Hz() float64 { return float64(r) / 1000 }

// String prints the frames a second.
func (r Rate) String() string { return strconv.FormatFloat(r.Hz(), 'f', -1, 64) }

// limit prints the frames a second as ParseRate reads them.
func (r Rate) limit() string {
	if r == 0 {
		return "none"
	}
	return r.String()
}

// ParseRate reads frames a second, from 0.001, or none.
func ParseRate(s string) (Rate, error) {
	if s == "none" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(strings.TrimSuffix(strings.ToLower(s), "hz"), 64)
	if err != nil || !(f >= 0.001 && f*1000 <= math.MaxUint32) {
		return 0, fmt.Errorf("%q: want frames a second, as in 200 or 0.5, or none", s)
	}
	return Rate(math.Round(f * 1000)), nil
}

// Priority is one more than the number that users write, so that its zero value
// is the default, 4.
type Priority uint8

// Level is the priority as a number: 0 … 7.
func (p Priority) Level() int {
	if p == 0 {
		return 4
	}
	return int(p) - 1
}

// String prints the number.
func (p Priority) String() string { return strconv.Itoa(p.Level()) }

// ParsePriority reads 0 … 7.
func ParsePriority(s string) (Priority, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 7 {
		return 0, fmt.Errorf("%q: want 0 … 7, 7 is the most urgent, 4 the default", s)
	}
	return Priority(n + 1), nil
}

// Mode says which frames a mirror gets.
type Mode uint8

// The modes.
const (
	Newest Mode = iota // the newest, whenever the link can take one
	Every              // all, in order, as far back as the ring reaches
)

var modes = []string{"newest", "every"}

// String prints the mode as ParseMode reads it.
func (m Mode) String() string { return word(modes, m) }

// ParseMode reads newest or every.
func ParseMode(s string) (Mode, error) { return parseWord[Mode](modes, s) }

// Compress says how large frames are made smaller on their way.
type Compress uint8

// The ways to compress.
const (
	CompressAuto Compress = iota // where it pays: measured, frame by frame
	CompressNone
	CompressS2
	CompressZstd
)

var compressions = []string{"auto", "none", "s2", "zstd"}

// String prints the way as ParseCompress reads it.
func (c Compress) String() string { return word(compressions, c) }

// ParseCompress reads auto, none, s2 or zstd.
func ParseCompress(s string) (Compress, error) { return parseWord[Compress](compressions, s) }

// Late says what becomes of a frame that arrives past its budget.
type Late uint8

// What becomes of late frames.
const (
	LateDrop    Late = iota // counted, not put
	LateDeliver             // put; the budget then bounds nothing
)

var lates = []string{"drop", "deliver"}

// String prints the fate as ParseLate reads it.
func (l Late) String() string { return word(lates, l) }

// ParseLate reads drop or deliver.
func ParseLate(s string) (Late, error) { return parseWord[Late](lates, s) }

// Class says what a channel's frames mean to who reads them.
type Class uint8

// The classes.
const (
	State   Class = iota // the newest is worth having, however old
	Command              // never put when it may be past its budget
)

var classes = []string{"state", "command"}

// String prints the class as ParseClass reads it.
func (c Class) String() string { return word(classes, c) }

// ParseClass reads state or command.
func ParseClass(s string) (Class, error) { return parseWord[Class](classes, s) }

func word[T ~uint8](words []string, v T) string {
	if int(v) >= len(words) {
		return strconv.Itoa(int(v))
	}
	return words[v]
}

func parseWord[T ~uint8](words []string, s string) (T, error) {
	i := slices.Index(words, s)
	if i < 0 {
		return 0, fmt.Errorf("%q: want %s", s, strings.Join(words, " or "))
	}
	return T(i), nil
}
