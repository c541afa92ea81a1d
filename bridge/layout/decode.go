package layout

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Value is one value of a frame: a struct, an array, or a single value. It refers to the frame's memory and is valid as
// long as the frame.
type Value struct {
	field  *Field
	count  []int
	data   []byte // the frame's bytes, starting at the value's first byte
	absent bool   // the frame does not have this value

	// The following fields are only for values in a protobuf message. A single value that is not a message is in data, without
	// other bytes after it.
	message  protoreflect.Message // nil unless the value is a message
	isList   bool
	list     protoreflect.List // elements of a list; nil for a map
	elements []Value           // entries of a map if isList is set, otherwise the key and value of an entry
}

// Decode returns the values of a frame, as a struct. The error describes how the frame does not match the layout.
func (l *Layout) Decode(frame []byte) (Value, error) {
	v, _, err := l.DecodeVariant(frame)
	return v, err
}

// DecodeVariant does what Decode does, and also returns the index of the variant that the frame has. The index is 0 if the
// layout has no Variants.
func (l *Layout) DecodeVariant(frame []byte) (v Value, variant int, err error) {
	fit := l.Fit()
	if l.Variants != nil {
		if variant, err = fit.variant(len(frame), frame); err != nil {
			return Value{}, 0, err
		}
		l, fit = &l.Variants[variant].Layout, fit.variants[variant].fit
	}
	v, err = l.decode(&fit, frame)
	return v, variant, err
}

func (l *Layout) decode(fit *Fit, frame []byte) (Value, error) {
	if err := fit.Check(len(frame), frame); err != nil {
		return Value{}, err
	}
	if l.protobuf != nil {
		return l.protobuf.decode(frame)
	}
	var dimensions []int
	if l.Tail != "" {
		dimensions, _ = fit.dimensions(len(frame), frame)
	}
	return l.root(dimensions, frame), nil
}

// root returns the struct of a frame. dimensions has the numbers of elements of its tail, outermost first.
func (l *Layout) root(dimensions []int, frame []byte) Value {
	fields := l.Fields
	if l.Tail != "" {
		fields = slices.Clone(fields)
		tail := &fields[len(fields)-1]
		tail.open, tail.Count = true, slices.Concat(dimensions, tail.Count)
	}
	return Value{field: &Field{Name: l.Name, Type: Struct, Size: l.Size, Fields: fields}, data: frame}
}

// Absent returns a struct for each variant, or one if the layout has no Variants. The structs have the fields that frames can
// have, and all their values are absent.
func (l *Layout) Absent() (roots []Value) {
	for i := range l.Variants {
		roots = append(roots, l.Variants[i].Layout.Absent()...)
	}
	if roots != nil {
		return roots
	}
	if l.protobuf != nil {
		return []Value{{field: l.protobuf.rootField(), absent: true}}
	}
	absent := l.root([]int{0}, nil)
	absent.absent = true
	return []Value{absent}
}

// Field returns the field of the value, with its unit. The value of an array element has fewer dimensions than its
// field.
func (v Value) Field() *Field { return v.field }

// Len returns the number of elements of an array; ok is false for other values. A text is not an array.
func (v Value) Len() (int, bool) {
	switch {
	case v.isList && v.list != nil:
		return v.list.Len(), true
	case v.isList:
		return len(v.elements), true
	}
	if len(v.count) == 0 || v.field.Type == Char && len(v.count) == 1 {
		return 0, false
	}
	return v.count[0], true
}

// At returns element i of an array.
func (v Value) At(i int) Value {
	switch {
	case v.isList && v.list != nil:
		return protobufValue(v.field, v.list.Get(i))
	case v.isList:
		return v.elements[i]
	case v.absent:
		return v.Missing()
	}
	n, _ := product(v.count[1:], v.field.element())
	return Value{field: v.field, count: v.count[1:], data: v.data[i*n*v.field.element():]}
}

// Member returns the value of field i of a struct.
func (v Value) Member(i int) Value {
	f := &v.field.Fields[i]
	if f.descriptor != nil {
		return v.protobufMember(i)
	}
	if v.absent {
		return Value{field: f, count: f.Count, absent: true}
	}
	return Value{field: f, count: f.Count, data: v.data[f.Offset:]}
}

// Missing returns an element that is absent, for an index after the end of the array v.
func (v Value) Missing() Value {
	if v.isList {
		return Value{field: v.field, absent: true}
	}
	return Value{field: v.field, count: v.count[1:], absent: true}
}

// IsAbsent reports whether the frame does not have this value. Text then returns "".
func (v Value) IsAbsent() bool { return v.absent }

// Text returns a single value as text: a number with the fewest digits that identify it, an enumeration's name, a text
// without its terminator, or hexadecimal bytes.
func (v Value) Text() string {
	f := v.field
	switch {
	case v.absent || f.Type == Struct:
		return ""
	case f.Type == Char:
		return v.string()
	case f.Type == String:
		return string(v.data)
	case f.Type == Bytes && f.descriptor != nil:
		return hex.EncodeToString(v.data)
	case f.Type == Bytes:
		return hex.EncodeToString(v.data[:f.Size])
	case f.Type == Pointer:
		return fmt.Sprintf("%#x", binary.LittleEndian.Uint64(v.data))
	case f.Type == Bool && v.bits() < 2:
		return strconv.FormatBool(v.bits() == 1)
	}
	if name := v.word(); name != "" {
		return name
	}
	return v.number()
}

// word returns the name of a number in its enumeration, or "".
func (v Value) word() string {
	words := v.field.Words
	if len(words) == 0 {
		return ""
	}
	value := int64(v.extended())
	for i := range words {
		if words[i].Value == value {
			return words[i].Name
		}
	}
	return ""
}

// IsNumber reports whether Text is a number or a boolean, and not a name.
func (v Value) IsNumber() bool {
	if v.absent || !v.field.Type.isNumber() {
		return false
	}
	if x := v.float(); math.IsNaN(x) || math.IsInf(x, 0) { // an integer with a scale can be infinite, too
		return false
	}
	return v.word() == ""
}

// Number returns a single value as a number, multiplied by its scale. A boolean is 0 or 1, and an enumeration's name is
// its number. ok is false for other values.
func (v Value) Number() (x float64, ok bool) {
	if v.absent || !v.field.Type.isNumber() {
		return 0, false
	}
	return v.float(), len(v.count) == 0
}

// Bits returns the bits of a single number, boolean or pointer, as in C. A signed integer is sign-extended.
func (v Value) Bits() uint64 { return v.extended() }

func (v Value) string() string {
	n := 1
	if len(v.count) > 0 {
		n = v.count[0]
	}
	text, _, _ := bytes.Cut(v.data[:n], []byte{0})
	return string(text)
}

func (v Value) number() string {
	f := v.field
	switch {
	case f.Type == Float && f.Scale == 0:
		return strconv.FormatFloat(v.float(), 'g', -1, 32)
	case f.Type == Float || f.Type == Double || f.Scale != 0:
		return strconv.FormatFloat(v.float(), 'g', -1, 64)
	case f.Type.signed():
		return strconv.FormatInt(int64(v.extended()), 10)
	}
	return strconv.FormatUint(v.extended(), 10)
}

// float returns a number multiplied by its scale.
func (v Value) float() float64 {
	var x float64
	switch raw := v.extended(); {
	case v.field.Type == Float:
		x = float64(math.Float32frombits(uint32(raw)))
	case v.field.Type == Double:
		x = math.Float64frombits(raw)
	case v.field.Type.signed():
		x = float64(int64(raw))
	default:
		x = float64(raw)
	}
	if v.field.Scale != 0 {
		x *= v.field.Scale
	}
	return x
}

// extended returns the bits of a value, sign-extended.
func (v Value) extended() uint64 {
	raw := v.bits()
	if !v.field.Type.signed() {
		return raw
	}
	unused := 64 - v.width()
	return uint64(int64(raw<<unused) >> unused)
}

func (v Value) width() int {
	if v.field.Bits > 0 {
		return v.field.Bits
	}
	return 8 * v.field.element()
}

// bits returns the bits of a value, without sign extension.
func (v Value) bits() (raw uint64) {
	first, n := v.field.Bit, v.width()
	for at := first / 8; 8*at < first+n; at++ {
		if shift := 8*at - first; shift >= 0 {
			raw |= uint64(v.data[at]) << shift
		} else {
			raw |= uint64(v.data[at]) >> -shift
		}
	}
	return raw << (64 - n) >> (64 - n)
}
