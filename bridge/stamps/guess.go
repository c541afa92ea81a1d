package stamps

import (
	"cmp"
	"slices"
	"strings"

	"achbridge/bridge/layout"
)

// Guess returns the rule for the fields of a layout that look like time stamps, by their names and types, and "" if no
// field does. The stamps may count by another clock: only the programs' authors know.
//
//   - A layout that begins with the header of golems/sns has the rule sns. A protobuf message with the metadata of
//     somatic.proto has the rule somatic; other messages have none.
//   - A struct with the integers sec and nsec (or nanosec, with tv_ or not) has a time.
//   - An int64, uint64 or double is a time if it is called time, stamp or timestamp, and the end of the validity if it is called
//     expiry or until. The name may end in _ns or _sec.
func Guess(l *layout.Layout) Rule {
	if l == nil {
		return ""
	}
	switch {
	case l.Variants != nil:
		return guessForVariants(l)
	case l.Message() != nil:
		return guessForMessage(l.Message())
	}
	header := l.Fields
	if len(header) > 0 && header[0].Offset == 0 && header[0].Type == layout.Struct {
		header = header[0].Fields
	}
	if at(header, "sec") == 0 && at(header, "dur_nsec") == 8 && at(header, "nsec") == 16 {
		return SNS
	}
	var f ruleFields
	f.guess(l.Fields, "")
	if !f.time.isSet() && !f.until.isSet() {
		return ""
	}
	r := f.rule()
	if _, err := r.Compile(l); err != nil || f.check() != nil {
		return ""
	}
	return r
}

// guessForVariants returns the rule that Guess returns for every variant of a layout, and "" if these differ.
func guessForVariants(l *layout.Layout) Rule {
	r := Guess(&l.Variants[0].Layout)
	for i := range l.Variants {
		if Guess(&l.Variants[i].Layout) != r {
			return ""
		}
	}
	if _, err := r.Compile(l); r == "" || err != nil {
		return ""
	}
	return r
}

// at returns the offset of a field, -1 if there is none.
func at(fields []layout.Field, name string) int {
	if i := slices.IndexFunc(fields, func(f layout.Field) bool { return f.Name == name }); i >= 0 {
		return fields[i].Offset
	}
	return -1
}

// guess sets time and until to the first fields that look like them. The names of fields get a prefix.
func (f *ruleFields) guess(fields []layout.Field, prefix string) {
	var sec, nsec string
	for _, field := range fields {
		if len(field.Count) > 0 {
			continue
		}
		name := prefix + field.Name
		switch word := strings.ToLower(field.Name); {
		case field.Type == layout.Struct:
			f.guess(field.Fields, name+".")
		case isSecond(word):
			sec = cmp.Or(sec, name)
		case slices.Contains([]string{"nsec", "nanosec", "tv_nsec"}, word):
			nsec = cmp.Or(nsec, name)
		case field.Type == layout.Double || field.Type == layout.Int64 || field.Type == layout.Uint64:
			for _, unit := range []string{"_ns", "_nsec", "_sec"} {
				word = strings.TrimSuffix(word, unit)
			}
			switch {
			case slices.Contains([]string{"time", "stamp", "timestamp"}, word) && !f.time.isSet():
				f.time = value{first: name}
			case slices.Contains([]string{"expiry", "until"}, word) && !f.until.isSet():
				f.until = value{first: name}
			}
		}
	}
	if pair := (value{sec, nsec}); sec != "" && nsec != "" {
		if to := f.byKey(pairKey(prefix)); !to.isSet() {
			*to = pair
		}
	}
}

func isSecond(word string) bool { return slices.Contains([]string{"sec", "tv_sec"}, word) }

// pairKey returns what the pair in a struct means.
func pairKey(prefix string) string {
	if strings.HasSuffix(prefix, "until.") || strings.HasSuffix(prefix, "expiry.") {
		return keyUntil
	}
	return keyTime
}
