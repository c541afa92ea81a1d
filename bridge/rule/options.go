package rule

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"achbridge/bridge/stamps"
)

// Rate is a number of frames per 1000 seconds; 0 means no limit.
type Rate uint32

// Interval returns the time from one frame to the next, 0 without a limit.
func (r Rate) Interval() time.Duration {
	if r == 0 {
		return 0
	}
	return time.Duration(1000 * float64(time.Second) / float64(r))
}

// Hz returns the limit in frames a second.
func (r Rate) Hz() float64 { return float64(r) / 1000 }

// String returns the frames a second.
func (r Rate) String() string { return strconv.FormatFloat(r.Hz(), 'f', -1, 64) }

// limit returns the form that parseRate parses.
func (r Rate) limit() string {
	if r == 0 {
		return "none"
	}
	return r.String()
}

// parseRate parses frames a second, at least 0.001, or none.
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

// Levels is the number of priorities.
const Levels = 8

// Priority is the user's number plus one, so that the zero value is the default, 4.
type Priority uint8

// Level returns the user's number, 0 … 7.
func (p Priority) Level() int {
	if p == 0 {
		return 4
	}
	return int(p) - 1
}

// String returns the user's number.
func (p Priority) String() string { return strconv.Itoa(p.Level()) }

// parsePriority parses 0 … 7.
func parsePriority(s string) (Priority, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 7 {
		return 0, fmt.Errorf("%q: want 0 … 7, 7 is the most urgent, 4 the default", s)
	}
	return Priority(n + 1), nil
}

// Mode determines which frames a mirror gets.
type Mode uint8

// Modes.
const (
	Newest Mode = iota // the newest frame, whenever the link can carry one
	Every              // all frames in order, starting with the oldest in the ring
)

var modes = []string{"newest", "every"}

// String returns the form that parseMode parses.
func (m Mode) String() string { return ValueName(modes, m) }

// parseMode parses newest or every.
func parseMode(s string) (Mode, error) { return parseValue[Mode](modes, s) }

// Compress determines how frames are compressed.
type Compress uint8

// Compression methods.
const (
	CompressAuto Compress = iota // compress where measurements show a gain, decided for each frame
	CompressNone                 // never compress; exported for tests
	CompressZstd
)

var compressions = []string{"auto", "none", "zstd"}

// compressNumbers holds the number of each method in messages. Number 2 was S2.
var compressNumbers = []uint8{CompressAuto: 0, CompressNone: 1, CompressZstd: 3}

// String returns the form that parseCompress parses.
func (c Compress) String() string { return ValueName(compressions, c) }

// parseCompress parses auto, none or zstd.
func parseCompress(s string) (Compress, error) {
	if s == "s2" {
		return 0, fmt.Errorf("%q is gone: use auto or zstd instead", s)
	}
	return parseValue[Compress](compressions, s)
}

// Late is the late-frame policy: how to handle a frame that arrives past its budget. The zero value is the
// default of the class: newest for state channels, drop for commands. Use EffectiveLate to read it, except in
// tests.
type Late uint8

// Late-frame policies.
const (
	LateNewest Late = iota + 1 // put and count the frame, if it is newer than the mirror's; exported for tests
	LateDrop                   // count the frame, but do not put it
)

var lates = []string{"newest", "drop"}

// String returns the form that parseLate parses.
func (l Late) String() string { return ValueName(lates, l-1) }

// parseLate parses newest or drop.
func parseLate(s string) (Late, error) {
	if s == "deliver" {
		return 0, fmt.Errorf("%q is gone: use a larger budget instead, as in 1h", s)
	}
	l, err := parseValue[Late](lates, s)
	if err != nil {
		return 0, err
	}
	return l + 1, nil
}

// Class is the class of a channel: state or command.
type Class uint8

// Channel classes.
const (
	State   Class = iota // the newest frame is useful, however old; exported for tests
	Command              // a frame that may be past its budget is never put
)

var classes = []string{"state", "command"}

// String returns the form that parseClass parses.
func (c Class) String() string { return ValueName(classes, c) }

// parseClass parses state or command.
func parseClass(s string) (Class, error) { return parseValue[Class](classes, s) }

// ValueName returns the name of the option value v, or v as a number if words has no name for it.
func ValueName[T ~uint8](words []string, v T) string {
	if int(v) >= len(words) {
		return strconv.Itoa(int(v))
	}
	return words[v]
}

func parseValue[T ~uint8](words []string, s string) (T, error) {
	i := slices.Index(words, s)
	if i < 0 {
		return 0, fmt.Errorf("%q: want %s", s, orList(words))
	}
	return T(i), nil
}

// Option is one option of a QoS. It can be set after an address, in a rule of the configuration, or by a flag.
type Option struct {
	Key   string
	Kind  string   // placeholder of the value in the help; empty if Words lists all values
	Words []string // possible values; nil means free text
	Usage string
	// Here reports that only the mirror's host decides about the option: it is not sent to the origin, and a push cannot
	// request it.
	Here bool
	set  func(*QoS, string, ReadFile) error
	text func(QoS) string
}

// options lists all options in the order of the help.
var options = []Option{
	{"budget", "TIME", nil, "latency budget: send no older frame", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Budget, err = parseBudget(s); return },
		func(q QoS) string { return q.EffectiveBudget().String() }},
	{"max_rate", "HZ", nil, "send at most this many frames a second", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.MaxRate, err = parseRate(s); return },
		func(q QoS) string { return q.MaxRate.limit() }},
	{"priority", "0..7", strings.Split("01234567", ""), "send priority 7 first, 0 last", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Priority, err = parsePriority(s); return },
		func(q QoS) string { return q.Priority.String() }},
	{"mode", "", modes, "send only the newest frame, or every one", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Mode, err = parseMode(s); return },
		func(q QoS) string { return q.Mode.String() }},
	{"compress", "", compressions, "compress frames; auto: where it saves time", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Compress, err = parseCompress(s); return },
		func(q QoS) string { return q.Compress.String() }},
	{"late", "", lates, "put frames past their budget, or drop them", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Late, err = parseLate(s); return },
		func(q QoS) string { return q.EffectiveLate().String() }},
	{"class", "", classes, "command: never put a frame past its budget", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Class, err = parseClass(s); return },
		func(q QoS) string { return q.Class.String() }},
	{"deadline", "TIME", nil, "report stale if no frame comes in this time", true,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Deadline, err = parseDeadline(s); return },
		func(q QoS) string { return deadlineText(q.Deadline) }},
	{"on_stale", "keep|put:FILE", nil, "put a frame into a stale command channel", true,
		func(q *QoS, s string, read ReadFile) (err error) { q.OnStale, err = parseOnStale(s, read); return },
		func(q QoS) string { return q.OnStale.String() }},
	{"stamps", "sns|somatic|hubo|FIELDS", nil, "shift stamps in frames to the mirror's clock", false,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Stamps, err = parseStamps(s); return },
		func(q QoS) string { return cmp.Or(string(q.Stamps), noStamps) }},
	{"meta", "", switches, "write the age of the mirror to channel NAME.meta", true,
		func(q *QoS, s string, _ ReadFile) (err error) { q.Meta, err = parseSwitch(s); return },
		func(q QoS) string { return strconv.FormatBool(q.Meta) }},
}

// noStamps is the text of the option without a rule.
const noStamps = "none"

// parseStamps parses none or a rule for stamps.
func parseStamps(s string) (stamps.Rule, error) {
	if s == noStamps {
		return "", nil
	}
	return stamps.ParseRule(s)
}

var switches = []string{"false", "true"}

func parseSwitch(s string) (bool, error) {
	i, err := parseValue[uint8](switches, s)
	return i == 1, err
}

// Removed returns advice for an option that older versions had, and "" for other keys.
func Removed(key string) string {
	if key == "fit" {
		return "was removed: where large frames come late, set a longer budget; max_rate sends fewer frames, compress makes them smaller"
	}
	return ""
}

// Options returns the options of a QoS. Callers must not modify them.
func Options() []Option { return options }

// PushOptions returns the options that a push can request.
func PushOptions() []Option {
	return slices.DeleteFunc(slices.Clone(options), func(o Option) bool { return o.Here })
}

// orList joins words as in "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// IsSwitch reports whether words are those of a boolean option.
func IsSwitch(words []string) bool { return slices.Equal(words, switches) }

// Text returns the option's value in q, or the default if q does not set the option.
func (o Option) Text(q QoS) string { return o.text(q) }

// usual reports whether q has the option's default. The default of late depends on the class.
func (o Option) usual(q QoS) bool {
	usual := QoS{}
	if o.Key == "late" {
		usual.Class = q.Class
	}
	return o.text(q) == o.text(usual)
}

// optionError is an error in the value of an option. Err does not include the key, for callers that already name
// it, see WithoutKey.
type optionError struct {
	Key string
	Err error
}

func (e *optionError) Error() string { return e.Key + " " + e.Err.Error() }

func (e *optionError) Unwrap() error { return e.Err }

// WithoutKey returns err without the option's key, for messages that already include the key.
func WithoutKey(err error) error {
	var option *optionError
	if errors.As(err, &option) {
		return option.Err
	}
	return err
}

// Set sets the option key to a value, or with PresetKey the options of a preset. Key and value are as in --mirror
// HOST/PATTERN,key=value. read is used only for on_stale, and may be nil for other options.
func (q *QoS) Set(key, value string, read ReadFile) error {
	if key == PresetKey {
		if err := q.setPreset(value); err != nil {
			return &optionError{key, err}
		}
		return nil
	}
	keys := []string{PresetKey}
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
