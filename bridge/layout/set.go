package layout

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Find returns a single value of a struct by its path, as in gains.kp or motors[2].current. A text is a single value.
func (v Value) Find(path string) (Value, error) {
	for level := range strings.SplitSeq(path, ".") {
		name, indexes, isElement := strings.Cut(level, "[")
		i := slices.IndexFunc(v.field.Fields, func(f Field) bool { return f.Name == name })
		if v.field.Type != Struct || i < 0 {
			return v, fmt.Errorf("%s: there is no field %s", path, name)
		}
		v = v.Member(i)
		if !isElement {
			continue
		}
		indexes, isClosed := strings.CutSuffix(indexes, "]")
		if !isClosed {
			return v, fmt.Errorf("%s: %s lacks a ]", path, level)
		}
		for index := range strings.SplitSeq(indexes, "][") {
			n, isArray := v.Len()
			at, err := strconv.Atoi(index)
			if !isArray || err != nil || at < 0 || at >= n {
				return v, fmt.Errorf("%s: %s has no element [%s]", path, name, index)
			}
			v = v.At(at)
		}
	}
	if _, isArray := v.Len(); isArray || v.field.Type == Struct {
		return v, fmt.Errorf("%s: want a single value, not a struct or an array", path)
	}
	return v, nil
}

// Set changes a single value in the memory of the frame. text is as Text returns it. An integer may also be as in Go source,
// and a number of an enumeration may stand for its name. If Set returns an error, the frame is unchanged. Set does not change
// values of protobuf messages.
func (v Value) Set(text string) error {
	f := v.field
	switch {
	case v.message != nil || f.descriptor != nil:
		return errors.New("values of protobuf messages cannot be set")
	case v.absent:
		return errors.New("the frame does not have this value")
	case f.Type == Char:
		return v.setString(text)
	case f.Type == Bytes:
		return v.setBytes(text)
	case !f.Type.isNumber():
		return fmt.Errorf("a %s cannot be set", f.Type)
	}
	raw, err := v.parse(text)
	if err != nil {
		return err
	}
	v.setBits(raw)
	return nil
}

// IsEqual reports whether Set would leave the value as it is, except for another spelling.
func (v Value) IsEqual(text string) (bool, error) {
	former := v.Text()
	v.data = slices.Clone(v.data)
	err := v.Set(text)
	return err == nil && v.Text() == former, err
}

func (v Value) setString(text string) error {
	room := 1
	if len(v.count) > 0 {
		room = v.count[0]
	}
	if len(text) > room || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%q: want a text of at most %d bytes", text, room)
	}
	clear(v.data[copy(v.data[:room], text):room])
	return nil
}

func (v Value) setBytes(text string) error {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != v.field.Size {
		return fmt.Errorf("%q: want %d bytes in hexadecimal", text, v.field.Size)
	}
	copy(v.data, b)
	return nil
}

// parse returns the bits of a number in text.
func (v Value) parse(text string) (uint64, error) {
	f := v.field
	if i := slices.IndexFunc(f.Words, func(w Word) bool { return w.Name == text }); i >= 0 {
		return v.fromInteger(strconv.FormatInt(f.Words[i].Value, 10))
	}
	switch {
	case f.Type == Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return 0, fmt.Errorf("%q: want true or false", text)
		}
		if b {
			return 1, nil
		}
		return 0, nil
	case f.Type != Float && f.Type != Double && f.Scale == 0:
		return v.fromInteger(text)
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("%q: want a finite number", text)
	}
	if f.Scale != 0 {
		x /= f.Scale
	}
	switch f.Type {
	case Float:
		if math.IsInf(float64(float32(x)), 0) {
			return 0, fmt.Errorf("%s is too large for a float", text)
		}
		return uint64(math.Float32bits(float32(x))), nil
	case Double:
		return math.Float64bits(x), nil
	}
	return v.fromInteger(strconv.FormatFloat(math.Round(x), 'f', -1, 64))
}

// fromInteger returns the bits of an integer in text. The error names the range of the field.
func (v Value) fromInteger(text string) (uint64, error) {
	width := v.width()
	if v.field.Type.signed() {
		i, err := strconv.ParseInt(text, 0, width)
		if err != nil {
			return 0, fmt.Errorf("%q: want an integer from %d to %d", text, int64(-1)<<(width-1), int64(1)<<(width-1)-1)
		}
		return uint64(i), nil
	}
	u, err := strconv.ParseUint(text, 0, width)
	if err != nil {
		return 0, fmt.Errorf("%q: want an integer from 0 to %d", text, ^uint64(0)>>(64-width))
	}
	return u, nil
}

// setBits is the inverse of bits. It leaves the other bits of the bytes as they are.
func (v Value) setBits(raw uint64) {
	first, n := v.field.Bit, v.width()
	for i := range n {
		at, mask := (first+i)/8, byte(1)<<((first+i)%8)
		v.data[at] &^= mask
		if raw>>i&1 == 1 {
			v.data[at] |= mask
		}
	}
}
