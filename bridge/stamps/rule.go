package stamps

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"achbridge/bridge/layout"
)

// Rule names the stamps in the frames of a channel: a preset, or fields such as
//
//	time:header.sec+header.nsec;duration:header.dur_nsec
//
// A value is one field (nanoseconds in an integer of 64 bits, seconds in a double) or a pair of integers, seconds and
// nanoseconds. A field is named as in the channel's layout. In a protobuf message, the field numbers name it too, as in
// 15.2.1+15.2.2; this needs no layout. The empty Rule leaves frames unchanged. Rules are compared with ==.
type Rule string

// Presets.
const (
	SNS     Rule = "sns"     // the header of golems/sns
	Somatic Rule = "somatic" // the metadata of somatic.proto
	Hubo    Rule = "hubo"    // the time of hubo-ach's state
)

// Keys of a rule.
const (
	keyTime     = "time"     // when the frame was made
	keyDuration = "duration" // how long after time the frame is valid; never shifted
	keyUntil    = "until"    // when the frame expires
)

// maxRule is the largest length of a rule, in bytes. It allows three pairs of names of maxDepth levels each.
const maxRule = 1 << 10

// maxDepth is the largest number of levels in the name of a field. Metadata of real messages has three.
const maxDepth = 8

// ParseRule checks the text of a rule. It returns the same Rule for all texts with the same meaning.
func ParseRule(text string) (Rule, error) {
	r := Rule(text)
	if r == SNS || r == Somatic || r == Hubo {
		return r, nil
	}
	if len(text) > maxRule {
		return "", fmt.Errorf("longer than %d bytes", maxRule)
	}
	if !strings.Contains(text, ":") {
		return "", fmt.Errorf("%q: want sns, somatic, hubo, or fields, as in time:header.sec+header.nsec;duration:header.dur_nsec", text)
	}
	f, err := r.fields()
	if err != nil {
		return "", err
	}
	return f.rule(), nil
}

// NeedsLayout reports whether Compile needs the layout of the channel.
func (r Rule) NeedsLayout() bool {
	if r == "" || r == SNS || r == Somatic || r == Hubo {
		return false
	}
	f, err := r.fields()
	return err == nil && !f.isProtobuf()
}

// HasExpiry reports whether the frames of the rule have a time and an expiry.
func (r Rule) HasExpiry() bool {
	if r == SNS || r == Somatic {
		return true
	}
	f, err := r.fields()
	return err == nil && f.time.isSet() && (f.duration.isSet() || f.until.isSet())
}

// value has the names of a value's fields. second is empty unless the value is a pair.
type value struct{ first, second string }

func (v value) isSet() bool { return v.first != "" }

func (v value) String() string {
	if v.second == "" {
		return v.first
	}
	return v.first + "+" + v.second
}

// ruleFields are the names in a rule.
type ruleFields struct{ time, duration, until value }

func (f *ruleFields) byKey(key string) *value {
	switch key {
	case keyTime:
		return &f.time
	case keyDuration:
		return &f.duration
	case keyUntil:
		return &f.until
	}
	return nil
}

func (f *ruleFields) rule() Rule {
	var parts []string
	for _, key := range []string{keyTime, keyDuration, keyUntil} {
		if v := f.byKey(key); v.isSet() {
			parts = append(parts, key+":"+v.String())
		}
	}
	return Rule(strings.Join(parts, ";"))
}

// isProtobuf reports whether the fields are named by numbers.
func (f *ruleFields) isProtobuf() bool {
	name := f.time.first + f.until.first
	return name != "" && name[0] >= '0' && name[0] <= '9'
}

// fields parses a rule that is no preset.
func (r Rule) fields() (f ruleFields, err error) {
	for part := range strings.SplitSeq(string(r), ";") {
		key, names, _ := strings.Cut(part, ":")
		key = strings.TrimSpace(key)
		v := f.byKey(key)
		if v == nil {
			return f, fmt.Errorf("%q: want time, duration or until", key)
		}
		if v.isSet() {
			return f, fmt.Errorf("%s is given twice", key)
		}
		first, second, isPair := strings.Cut(names, "+")
		*v = value{strings.TrimSpace(first), strings.TrimSpace(second)}
		if !v.isSet() || isPair && v.second == "" || strings.Contains(v.second, "+") {
			return f, fmt.Errorf("%s: want a field, or two fields with + between them: seconds and nanoseconds", key)
		}
	}
	return f, f.check()
}

func (f *ruleFields) check() error {
	switch {
	case !f.time.isSet() && !f.until.isSet():
		return errors.New("want time or until")
	case f.duration.isSet() && f.until.isSet():
		return errors.New("duration and until both say when a frame expires: want one of them")
	case f.duration.isSet() && !f.time.isSet():
		return errors.New("duration counts from time, which is missing")
	}
	var used []string
	for _, key := range []string{keyTime, keyDuration, keyUntil} {
		v := f.byKey(key)
		for _, name := range []string{v.first, v.second} {
			if name == "" {
				continue
			}
			if slices.ContainsFunc(used, func(other string) bool { return within(name, other) || within(other, name) }) {
				return fmt.Errorf("%s: the field %s is given twice", key, name)
			}
			used = append(used, name)
			if err := checkName(name, f.isProtobuf()); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		if f.isProtobuf() && v.second != "" && parent(v.first) != parent(v.second) {
			return fmt.Errorf("%s: %s and %s are fields of different messages", key, v.first, v.second)
		}
	}
	return nil
}

// within reports whether a field is another one, or belongs to the struct or the message that the other one is.
func within(name, other string) bool { return strings.HasPrefix(name+".", other+".") }

// parent returns the name of the message that contains a field, with a dot after it.
func parent(name string) string { return name[:strings.LastIndexByte(name, '.')+1] }

func checkName(name string, isProtobuf bool) error {
	levels := strings.Split(name, ".")
	if len(levels) > maxDepth {
		return fmt.Errorf("%s: more than %d levels", name, maxDepth)
	}
	for _, level := range levels {
		if isProtobuf {
			if n, err := strconv.ParseUint(level, 10, 32); err != nil || n < 1 || n > uint64(protowire.MaxValidNumber) || level[0] == '0' {
				return fmt.Errorf("%q: want field numbers of a protobuf message, as in 15.2.1", name)
			}
			continue
		}
		if level == "" || level[0] >= '0' && level[0] <= '9' || layout.Printable(level) != "" || strings.ContainsAny(level, " :;,+[]") {
			return fmt.Errorf("%q: want the name of a field, as in header.sec", name)
		}
	}
	return nil
}

// Compile returns the Shifter of a rule that is not empty. l is the layout of the channel's frames. It may be nil
// unless NeedsLayout.
func (r Rule) Compile(l *layout.Layout) (*Shifter, error) {
	switch r {
	case SNS:
		return &Shifter{minSize: snsSize, time: pairAt(0, layout.Int64, 16, layout.Uint32), duration: wholeAt(8, layout.Int64)}, nil
	case Hubo:
		return &Shifter{minSize: -huboTime, time: wholeAt(huboTime, layout.Double)}, nil
	case Somatic:
		r = "time:15.2.1+15.2.2;until:15.3.1+15.3.2"
	}
	f, err := r.fields()
	if err != nil {
		return nil, err
	}
	if f.isProtobuf() {
		return &Shifter{root: f.message()}, nil
	}
	switch {
	case l == nil:
		return nil, errors.New("the layout of the frames is not known")
	case l.Message() != nil:
		if f, err = f.numbered(l.Message()); err != nil {
			return nil, err
		}
		return &Shifter{root: f.message()}, nil
	}
	return f.fixed(l)
}

const (
	snsSize  = 56  // size of sns_msg_header, bytes
	huboTime = -10 // offset of the time from the end of hubo's state: a double, then a bool and a flag of one byte each
)
