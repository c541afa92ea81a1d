package layout

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Value is one value of a frame: a struct, an array, or a single value. It refers to the frame's memory and is valid as
// long as the frame.
type Value struct {
	field *Field
	count []int
	data  []byte // the frame's bytes, starting at the value's first byte
}

// Decode returns the values of a frame, as a struct. The error describes how the frame's size does not match the layout.
func (l *Layout) Decode(frame []byte) (Value, error) {
	root := Value{&Field{Name: l.Name, Type: Struct, Size: l.Size, Fields: l.Fields}, nil, frame}
	fit := l.Fit()
	if err := fit.Check(len(frame), frame); err != nil {
		return Value{}, err
	}
	if l.Tail == "" {
		return root, nil
	}
	n, _ := fit.elements(len(frame), frame)
	fields := slices.Clone(l.Fields)
	tail := &fields[len(fields)-1]
	tail.Count = append([]int{n}, tail.Count...)
	root.field.Fields = fields
	return root, nil
}

// Field returns the field of the value, with its unit. The value of an array element has fewer dimensions than its
// field.
func (v Value) Field() *Field { return v.field }

// Len returns the number of elements of an array; ok is false for other values. A text is not an array.
func (v Value) Len() (int, bool) {
	if len(v.count) == 0 || v.field.Type == Char && len(v.count) == 1 {
		return 0, false
	}
	return v.count[0], true
}

// At returns element i of an array.
func (v Value) At(i int) Value {
	n, _ := product(v.count[1:], v.field.element())
	return Value{v.field, v.count[1:], v.data[i*n*v.field.element():]}
}

// Members returns the members of a struct, or nil for other values.
func (v Value) Members() []Value {
	if v.field.Type != Struct || len(v.count) > 0 {
		return nil
	}
	members := make([]Value, len(v.field.Fields))
	for i := range members {
		f := &v.field.Fields[i]
		members[i] = Value{f, f.Count, v.data[f.Offset:]}
	}
	return members
}

// Text returns a single value as text: a number with the fewest digits that identify it, an enumeration's name, a text
// without its terminator, or hexadecimal bytes.
func (v Value) Text() string {
	f := v.field
	switch {
	case f.Type == Char:
		return v.string()
	case f.Type == Bytes:
		return hex.EncodeToString(v.data[:f.Size])
	case f.Type == Pointer:
		return fmt.Sprintf("%#x", binary.LittleEndian.Uint64(v.data))
	case f.Type == Bool && v.bits() < 2:
		return strconv.FormatBool(v.bits() == 1)
	}
	for _, w := range f.Words {
		if w.Value == int64(v.extended()) {
			return w.Name
		}
	}
	return v.number()
}

// IsNumber reports whether Text is a number or a boolean, and not a name.
func (v Value) IsNumber() bool {
	switch v.field.Type {
	case Char, Bytes, Pointer, Struct:
		return false
	}
	if x := v.float(); math.IsNaN(x) || math.IsInf(x, 0) { // an integer with a scale can be infinite, too
		return false
	}
	return !slices.ContainsFunc(v.field.Words, func(w Word) bool { return w.Value == int64(v.extended()) })
}

// Number returns a single value as a number, multiplied by its scale. A boolean is 0 or 1, and an enumeration's name is
// its number. ok is false for other values.
func (v Value) Number() (x float64, ok bool) {
	switch v.field.Type {
	case Char, Bytes, Pointer, Struct:
		return 0, false
	}
	return v.float(), len(v.count) == 0
}

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
