package bridge

import (
	"fmt"
	"strconv"
	"strings"
)

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
	set  func(*QoS, string) error
	text func(QoS) string
}

// options are all keys, in the order in which people read them.
var options = []Option{
	{"budget", "TIME", nil, "drop frames older than this", false,
		func(q *QoS, s string) (err error) { q.Budget, err = ParseBudget(s); return },
		func(q QoS) string { return q.budget().String() }},
	{"max_rate", "HZ", nil, "frames a second at most", false,
		func(q *QoS, s string) (err error) { q.MaxRate, err = ParseRate(s); return },
		func(q QoS) string { return q.MaxRate.limit() }},
	{"priority", "0..7", strings.Split("01234567", ""), "7 goes first, 0 last", false,
		func(q *QoS, s string) (err error) { q.Priority, err = ParsePriority(s); return },
		func(q QoS) string { return q.Priority.String() }},
	{"mode", "", modes, "which frames to send", false,
		func(q *QoS, s string) (err error) { q.Mode, err = ParseMode(s); return },
		func(q QoS) string { return q.Mode.String() }},
	{"compress", "", compressions, "make frames smaller", false,
		func(q *QoS, s string) (err error) { q.Compress, err = ParseCompress(s); return },
		func(q QoS) string { return q.Compress.String() }},
	{"late", "", lates, "what arrives past its budget", false,
		func(q *QoS, s string) (err error) { q.Late, err = ParseLate(s); return },
		func(q QoS) string { return q.Late.String() }},
	{"class", "", classes, "what the frames are", false,
		func(q *QoS, s string) (err error) { q.Class, err = ParseClass(s); return },
		func(q QoS) string { return q.Class.String() }},
	{"deadline", "TIME", nil, "a mirror without a frame for so long is stale", true,
		func(q *QoS, s string) (err error) { q.Deadline, err = ParseDeadline(s); return },
		func(q QoS) string { return deadlineText(q.Deadline) }},
	{"on_stale", "keep|put:FILE", nil, "what a stale command channel gets", true,
		func(q *QoS, s string) (err error) { q.OnStale, err = ParseOnStale(s); return },
		func(q QoS) string { return q.OnStale.String() }},
	{"meta", "", switches, "tell in NAME.meta how old the mirror is", true,
		func(q *QoS, s string) (err error) { q.Meta, err = parseSwitch(s); return },
		func(q QoS) string { return strconv.FormatBool(q.Meta) }},
}

var switches = []string{"false", "true"}

func parseSwitch(s string) (bool, error) {
	i, err := parseWord[uint8](switches, s)
	return i == 1, err
}

// Options are the keys of a QoS. Callers do not change them.
func Options() []Option { return options }

// Text is the option's value in q, the default when q does not set it.
func (o Option) Text(q QoS) string { return o.text(q) }

// Set sets one option from its text; key is as in --mirror HOST/PATTERN,key=value.
func (q *QoS) Set(key, value string) error {
	var keys []string
	for _, o := range options {
		if o.Key == key {
			if err := o.set(q, value); err != nil {
				return fmt.Errorf("%s %w", key, err)
			}
			return nil
		}
		keys = append(keys, o.Key)
	}
	return fmt.Errorf("option %q is not known; there are %s, as and file_mode", key, strings.Join(keys, ", "))
}
