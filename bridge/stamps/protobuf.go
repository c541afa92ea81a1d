package stamps

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// message has the fields of a protobuf message that a rule names.
type message struct {
	fields   []field
	canClamp bool // only in the outermost message: no stamp has a duration, so that a result below 1 may become 1 ns
}

// field is a field of a protobuf message: a part of a value, or a message that contains values.
type field struct {
	number protowire.Number
	sub    *message // nil for a part of a value
	role   role
	part   part
}

// part is the meaning of a field in a value.
type part uint8

const (
	whole part = iota // nanoseconds, or seconds in a double
	secs              // first of a pair
	nsecs             // second of a pair
	parts
)

// message returns the message that contains the rule's fields.
func (f *ruleFields) message() *message {
	root := &message{canClamp: !f.duration.isSet()}
	for r, v := range []value{timeRole: f.time, durationRole: f.duration, untilRole: f.until} {
		switch {
		case v.second != "":
			root.add(v.first, role(r), secs)
			root.add(v.second, role(r), nsecs)
		case v.isSet():
			root.add(v.first, role(r), whole)
		}
	}
	return root
}

// add adds the field with a name such as 15.2.1.
func (m *message) add(name string, r role, p part) {
	first, rest, isDeep := strings.Cut(name, ".")
	parsed, _ := strconv.ParseInt(first, 10, 32) // checkName has accepted it
	number := protowire.Number(parsed)
	f, _ := m.find(number)
	if f == nil {
		m.fields = append(m.fields, field{number: number, role: r, part: p})
		f = &m.fields[len(m.fields)-1]
	}
	if isDeep {
		if f.sub == nil {
			f.sub = &message{}
		}
		f.sub.add(rest, r, p)
	}
}

// find returns the field with a number and its index, nil if the rule does not name the field.
func (m *message) find(number protowire.Number) (*field, int) {
	for i := range m.fields {
		if m.fields[i].number == number {
			return &m.fields[i], i
		}
	}
	return nil, 0
}

// element is one field in the bytes of a message.
type element struct {
	raw      []byte // tag and value
	tag      int    // length of the tag
	length   int    // length of the number of bytes, of protowire.BytesType
	number   protowire.Number
	wireType protowire.Type
	value    uint64 // the number; for protowire.BytesType the length of the content
}

// content returns the bytes of a field of protowire.BytesType.
func (e *element) content() []byte { return e.raw[e.tag+e.length:] }

// next returns the first field in b. It returns false if b does not begin with one. Groups, which protobuf has given
// up, are not accepted.
func next(b []byte) (e element, ok bool) {
	if e.number, e.wireType, e.tag = protowire.ConsumeTag(b); e.tag < 0 || e.number > protowire.MaxValidNumber {
		return e, false
	}
	rest, size := b[e.tag:], 0
	switch e.wireType {
	case protowire.VarintType:
		e.value, size = protowire.ConsumeVarint(rest)
	case protowire.Fixed64Type:
		e.value, size = protowire.ConsumeFixed64(rest)
	case protowire.BytesType:
		e.value, e.length = protowire.ConsumeVarint(rest)
		_, size = protowire.ConsumeBytes(rest)
	case protowire.Fixed32Type:
		_, size = protowire.ConsumeFixed32(rest)
	default:
		return e, false
	}
	if size < 0 {
		return e, false
	}
	e.raw = b[:e.tag+size]
	return e, true
}

// partsRead are the parts of one value.
type partsRead struct {
	value   [parts]uint64
	isThere [parts]bool
	isFloat bool // the whole value is a double
}

// read reads the fields of m in b. A field that occurs twice is not accepted, since programs differ in what they read.
func (m *message) read(b []byte, all *[roles]partsRead) (ok bool) {
	var found uint64 // bit i is set if field i was there; a rule has at most 6 fields
	for len(b) > 0 {
		e, ok := next(b)
		if !ok {
			return false
		}
		b = b[len(e.raw):]
		f, i := m.find(e.number)
		if f == nil {
			continue
		}
		if found&(1<<i) != 0 {
			return false
		}
		found |= 1 << i
		if f.sub != nil {
			if e.wireType != protowire.BytesType || !f.sub.read(e.content(), all) {
				return false
			}
			continue
		}
		p := &all[f.role]
		p.isFloat = e.wireType == protowire.Fixed64Type && f.part == whole
		if e.wireType != protowire.VarintType && !p.isFloat {
			return false
		}
		p.value[f.part], p.isThere[f.part] = e.value, true
	}
	return true
}

// stamp returns the value of the parts. It returns false if they are no time.
func (p *partsRead) stamp() (s stamp, ok bool) {
	switch {
	case p.isFloat:
		s.ns, ok = nanoseconds(math.Float64frombits(p.value[whole]))
	case p.isThere[whole]:
		s.ns, ok = int64(p.value[whole]), true
	case p.isThere[secs] || p.isThere[nsecs]:
		s.ns, ok = joined(int64(p.value[secs]), int64(p.value[nsecs]))
	default:
		return s, true
	}
	s.isPresent = true
	return s, ok
}

// shift is Shifter.Shift for protobuf messages.
func (m *message) shift(dst, frame []byte, by By) ([]byte, Expiry, error) {
	var read [roles]partsRead
	if !m.read(frame, &read) {
		return dst, Expiry{}, ErrFormat
	}
	var v values
	for r := range v {
		var ok bool
		if v[r], ok = read[r].stamp(); !ok {
			return dst, Expiry{}, ErrValue
		}
	}
	expiry, ok := v.shift(by)
	if !ok {
		return dst, Expiry{}, ErrValue
	}
	var w rewrite
	for _, r := range []role{timeRole, untilRole} {
		s := v[r]
		if s.isSet() && s.ns < 1 {
			// The field may be unsigned, and a reader would then see a stamp in the far future.
			if !m.canClamp {
				return dst, Expiry{}, ErrValue
			}
			s.ns = 1
		}
		w[r] = read[r].moved(s)
	}
	return w.message(dst, frame, m), expiry, nil
}

// moved returns the parts with the value s. Parts of an unset time do not change.
func (p *partsRead) moved(s stamp) partsRead {
	to := *p
	switch {
	case !s.isSet():
		return to
	case p.isFloat:
		to.value[whole] = math.Float64bits(float64(s.ns) / 1e9)
	case p.isThere[whole]:
		to.value[whole] = uint64(s.ns)
	default:
		sec, nsec := split(s.ns)
		to.value[secs], to.value[nsecs] = uint64(sec), uint64(nsec)
	}
	return to
}

// rewrite has the parts of the values to be written.
type rewrite [roles]partsRead

// message appends message b to dst with the values of w. Other fields stay as they are.
func (w *rewrite) message(dst, b []byte, m *message) []byte {
	for len(b) > 0 {
		e, _ := next(b) // read has checked it
		b = b[len(e.raw):]
		f, _ := m.find(e.number)
		switch {
		case f == nil || f.sub == nil && f.role == durationRole:
			dst = append(dst, e.raw...)
		case f.sub != nil:
			dst = append(dst, e.raw[:e.tag]...)
			start := len(dst)
			dst = w.message(dst, e.content(), f.sub)
			dst = insertLength(dst, start, &e)
		case e.wireType == protowire.Fixed64Type:
			dst = append(dst, e.raw[:e.tag]...)
			dst = protowire.AppendFixed64(dst, w[f.role].value[f.part])
		default:
			dst = append(dst, e.raw[:e.tag]...)
			dst = appendVarint(dst, w[f.role].value[f.part], len(e.raw)-e.tag, e.value)
		}
	}
	for i := range m.fields { // parts of a pair that were left out, because they were 0
		f := &m.fields[i]
		p := &w[f.role]
		if f.sub == nil && f.part != whole && !p.isThere[f.part] && p.value[f.part] != 0 {
			dst = protowire.AppendTag(dst, f.number, protowire.VarintType)
			dst = protowire.AppendVarint(dst, p.value[f.part])
		}
	}
	return dst
}

// insertLength inserts the number of bytes before the content that begins at start. e is the field with the former
// content.
func insertLength(dst []byte, start int, e *element) []byte {
	size := len(dst) - start
	var room [binary.MaxVarintLen64]byte
	length := appendVarint(room[:0], uint64(size), e.length, e.value)
	dst = append(dst, length...)
	copy(dst[start+len(length):], dst[start:start+size])
	copy(dst[start:], length)
	return dst
}

// appendVarint appends v. If the former value was written with more bytes than necessary, v gets at least as many.
func appendVarint(dst []byte, v uint64, formerLength int, former uint64) []byte {
	length := protowire.SizeVarint(v)
	if formerLength > protowire.SizeVarint(former) {
		length = max(length, formerLength)
	}
	for range length - 1 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}
