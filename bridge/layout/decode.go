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

// Value is one value of a frame: a struct, an array, or a single value. It points into the
// frame and is good as long as that is.
type Value struct {
	field *Field
	count []int
	data  []byte // from the value's first byte on
}

// Decode returns the values of a frame, as a struct. The error says how the frame's size
// does not fit.
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

// Field is the field that the value is of, with its unit. Its dimensions need not be the
// value's.
func (v Value) Field() *Field { return v.field }

// Len is how many elements an array has; false for what is none. Text is none.
func (v Value) Len() (int, bool) {
	if len(v.count) == 0 || v.field.Type == Char && len(v.count) == 1 {
		return 0, false
	}
	return v.count[0], true
}

// At is element i of an array.
func (v Value) At(i int) Value {
	n, _ := product(v.count[1:], v.field.element())
	return Value{v.field, v.count[1:], v.data[i*n*v.field.element():]}
}

// Members are the members of a struct; nil for what is none.
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

// Text is a single value as text: a number in the fewest digits that tell it, the word of an
// enumeration, a text without its end, hexadecimal.
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

// IsNumber reports whether Text is a number or a truth value, not a word.
func (v Value) IsNumber() bool {
	switch v.field.Type {
	case Char, Bytes, Pointer, Struct:
		return false
	}
	if x := v.float(); math.IsNaN(x) || math.IsInf(x, 0) { // an integer, too, if it has a scale
		return false
	}
	return !slices.ContainsFunc(v.field.Words, func(w Word) bool { return w.Value == int64(v.extended()) })
}

// Number is a single value as a number, with its scale; a truth value is 0 or 1, a word the number
// that it stands for. ok is false for what is none.
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

// float is a number with its scale.
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

// extended are the bits of a value, with its sign.
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

// bits are the bits of a value, without its sign.
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
