package rule

import (
	"errors"
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

// limit prints the frames a second as parseRate reads them.
func (r Rate) limit() string {
	if r == 0 {
		return "none"
	}
	return r.String()
}

// parseRate reads frames a second, from 0.001, or none.
func parseRate(s string) (Rate, error) {
	if s == "none" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(strings.TrimSuffix(strings.ToLower(s), "hz"), 64)
	if err != nil || !(f >= 0.001 && f*1000 <= math.MaxUint32) {
		return 0, fmt.Errorf("%q: want frames a second, as in 200 or 0.5, or none", s)
	}
	return Rate(math.Round(f * 1000)), nil
}

// Levels is how many priorities there are.
const Levels = 8

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

// parsePriority reads 0 … 7.
func parsePriority(s string) (Priority, error) {
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

// String prints the mode as parseMode reads it.
func (m Mode) String() string { return Word(modes, m) }

// parseMode reads newest or every.
func parseMode(s string) (Mode, error) { return parseWord[Mode](modes, s) }

// Compress says how large frames are made smaller on their way.
type Compress uint8

// The ways to compress.
const (
	CompressAuto Compress = iota // where it pays: measured, frame by frame
	CompressNone                 // never; tests name it
	CompressS2
	CompressZstd
)

var compressions = []string{"auto", "none", "s2", "zstd"}

// String prints the way as parseCompress reads it.
func (c Compress) String() string { return Word(compressions, c) }

// parseCompress reads auto, none, s2 or zstd.
func parseCompress(s string) (Compress, error) { return parseWord[Compress](compressions, s) }

// Late says what becomes of a frame that arrives past its budget. The zero value is the
// default of the class: newest for states, drop for commands. Others than tests read
// EffectiveLate.
type Late uint8

// What becomes of late frames.
const (
	LateNewest  Late = iota + 1 // put and counted, if newer than what is there; tests name it
	LateDrop                    // counted, not put
	LateDeliver                 // put, and as good as in time; the budget then bounds nothing
)

var lates = []string{"newest", "drop", "deliver"}

// String prints the fate as parseLate reads it.
func (l Late) String() string { return Word(lates, l-1) }

// parseLate reads newest, drop or deliver.
func parseLate(s string) (Late, error) {
	l, err := parseWord[Late](lates, s)
	if err != nil {
		return 0, err
	}
	return l + 1, nil
}

// Class says what a channel's frames mean to who reads them.
type Class uint8

// The classes.
const (
	State   Class = iota // the newest is worth having, however old; tests name it
	Command              // never put when it may be past its budget
)

var classes = []string{"state", "command"}

// String prints the class as parseClass reads it.
func (c Class) String() string { return Word(classes, c) }

// parseClass reads state or command.
func parseClass(s string) (Class, error) { return parseWord[Class](classes, s) }

func Word[T ~uint8](words []string, v T) string {
	if int(v) >= len(words) {
		return strconv.Itoa(int(v))
	}
	return words[v]
}

func parseWord[T ~uint8](words []string, s string) (T, error) {
	i := slices.Index(words, s)
	if i < 0 {
		return 0, fmt.Errorf("%q: want %s", s, orList(words))
	}
	return T(i), nil
}

// Option is one of the keys by which a QoS is written: behind an address, in a
// rule of the configuration, as a flag.
type Option struct {
	Key   string
	Kind  string   // of the value, for the help; empty when Words tell it
	Words []string // that the value may be; nil: something else
	Usage string
	// Here says that it is for the host that has the mirror alone: the origin does not
	// learn it, and a push cannot ask for it.
	Here bool
	set  func(*QoS, string, ReadFile) error
	text func(QoS) string
}

// options are all keys, in the order in which people read them.
var options = []Option{
	{"budget", "TIME", nil, "drop frames older than this", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Budget, err = parseBudget(s); return },
		func(q QoS) string { return q.EffectiveBudget().String() }},
	{"max_rate", "HZ", nil, "frames a second at most", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.MaxRate, err = parseRate(s); return },
		func(q QoS) string { return q.MaxRate.limit() }},
	{"priority", "0..7", strings.Split("01234567", ""), "7 goes first, 0 last", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Priority, err = parsePriority(s); return },
		func(q QoS) string { return q.Priority.String() }},
	{"mode", "", modes, "which frames to send", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Mode, err = parseMode(s); return },
		func(q QoS) string { return q.Mode.String() }},
	{"compress", "", compressions, "compress frames", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Compress, err = parseCompress(s); return },
		func(q QoS) string { return q.Compress.String() }},
	{"late", "", lates, "what to do with frames past their budget", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Late, err = parseLate(s); return },
		func(q QoS) string { return q.EffectiveLate().String() }},
	{"class", "", classes, "state: the newest frame may come late; command: never", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Class, err = parseClass(s); return },
		func(q QoS) string { return q.Class.String() }},
	{"deadline", "TIME", nil, "a mirror that gets no frame in time for this long is stale", true,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Deadline, err = parseDeadline(s); return },
		func(q QoS) string { return deadlineText(q.Deadline) }},
	{"on_stale", "keep|put:FILE", nil, "what to put into a stale command channel", true,
		func(q *QoS, s string, read ReadFile) (err error) { q.OnStale, err = parseOnStale(s, read); return },
		func(q QoS) string { return q.OnStale.String() }},
	{"meta", "", switches, "tell programs in NAME.meta how old the mirror is", true,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Meta, err = parseSwitch(s); return },
		func(q QoS) string { return strconv.FormatBool(q.Meta) }},
}

var switches = []string{"false", "true"}

func parseSwitch(s string) (bool, error) {
	i, err := parseWord[uint8](switches, s)
	return i == 1, err
}

// Removed returns what replaces an option that older versions had; empty for other keys.
func Removed(key string) string {
	if key == "fit" {
		return "was removed: where large frames come late, set a longer budget; max_rate sends fewer frames, compress makes them smaller"
	}
	return ""
}

// Options are the keys of a QoS. Callers do not change them.
func Options() []Option { return options }

// PushOptions are the options that a push can ask for.
func PushOptions() []Option {
	return slices.DeleteFunc(slices.Clone(options), func(o Option) bool { return o.Here })
}

// orList is "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// IsSwitch reports whether the words of an option are those of one that is on or off.
func IsSwitch(words []string) bool { return slices.Equal(words, switches) }

// Text is the option's value in q, the default when q does not set it.
func (o Option) Text(q QoS) string { return o.text(q) }

// usual reports whether q leaves the option at its default, which for late is that of the
// class.
func (o Option) usual(q QoS) bool {
	usual := QoS{}
	if o.Key == "late" {
		usual.Class = q.Class
	}
	return o.text(q) == o.text(usual)
}

// optionError says what is wrong with the value of an option. Who has named the option
// already tells Err alone.
type optionError struct {
	Key string
	Err error
}

func (e *optionError) Error() string { return e.Key + " " + e.Err.Error() }

func (e *optionError) Unwrap() error { return e.Err }

// WithoutKey returns what is wrong with a value, for who has named the option already.
func WithoutKey(err error) error {
	var option *optionError
	if errors.As(err, &option) {
		return option.Err
	}
	return err
}

// Set sets one option from its text; key is as in --mirror HOST/PATTERN,key=value. read
// is for on_stale alone, and may be nil where that is not set.
func (q *QoS) Set(key, value string, read ReadFile) error {
	var keys []string
	for _, o := range options {
		if o.Key == key {
			if err := o.set(q, value, read); err != nil {
				return &optionError{key, err}
			}
			return nil
		}
		keys = append(keys, o.Key)
	}
	if why := Removed(key); why != "" {
		return &optionError{key, errors.New(why)}
	}
	return fmt.Errorf("option %q is not known; there are %s, as and file_mode", key, strings.Join(keys, ", "))
}
