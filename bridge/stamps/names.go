package stamps

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// numbered returns f with the field numbers of message m in place of field names.
func (f ruleFields) numbered(m protoreflect.MessageDescriptor) (ruleFields, error) {
	for _, key := range []string{keyTime, keyDuration, keyUntil} {
		v := f.byKey(key)
		isPair := v.second != ""
		for _, name := range []*string{&v.first, &v.second} {
			if *name == "" {
				continue
			}
			numbers, err := numbersOf(m, *name, isPair)
			if err != nil {
				return f, fmt.Errorf("%s: %w", key, err)
			}
			*name = numbers
		}
	}
	return f, f.check()
}

// numbersOf returns the field numbers for a field name, such as 15.2.1 for meta.time.sec. It returns an error if the field cannot be
// a stamp, or, with isPair, the seconds or nanoseconds of a stamp.
func numbersOf(m protoreflect.MessageDescriptor, name string, isPair bool) (string, error) {
	var numbers []string
	levels := strings.Split(name, ".")
	for i, level := range levels {
		d := m.Fields().ByName(protoreflect.Name(level))
		switch isLast := i == len(levels)-1; {
		case d == nil:
			return "", fmt.Errorf("%s: %s has no field %s", name, m.FullName(), level)
		case d.Cardinality() == protoreflect.Repeated:
			return "", fmt.Errorf("%s: %s is repeated or a map: want a single value", name, level)
		case !isLast && d.Kind() != protoreflect.MessageKind:
			return "", fmt.Errorf("%s: %s is not a message", name, level)
		case isLast && !slices.Contains(stampKinds(isPair), d.Kind()):
			return "", fmt.Errorf("%s is %v: want one of %v", name, d.Kind(), stampKinds(isPair))
		}
		numbers = append(numbers, strconv.Itoa(int(d.Number())))
		m = d.Message()
	}
	return strings.Join(numbers, "."), nil
}

// stampKinds returns the kinds of fields that can be a stamp, or, with isPair, the seconds or nanoseconds of a stamp.
func stampKinds(isPair bool) []protoreflect.Kind {
	if isPair {
		return []protoreflect.Kind{protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Int64Kind, protoreflect.Uint64Kind}
	}
	return []protoreflect.Kind{protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.DoubleKind}
}

// guessForMessage returns the rule somatic if the message has the metadata of somatic.proto, and "" otherwise.
func guessForMessage(m protoreflect.MessageDescriptor) Rule {
	somatic := ruleFields{time: value{"15.2.1", "15.2.2"}, until: value{"15.3.1", "15.3.2"}}
	named := ruleFields{time: value{"meta.time.sec", "meta.time.nsec"}, until: value{"meta.until.sec", "meta.until.nsec"}}
	if found, err := named.numbered(m); err != nil || found != somatic {
		return ""
	}
	return Somatic
}
