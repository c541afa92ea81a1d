package layout

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fit checks whether frames match a layout. It holds only the parts of the layout that this needs.
type Fit struct {
	name     string
	size     int
	tail     string    // name of the tail; "" means that all frames have the same size
	offset   int       // offset of the tail in bytes
	each     int       // size of an element of the tail in bytes
	counters []integer // fields with the number of elements in each dimension of the tail
	counter  string    // Counter of the layout, for errors
	by       integer   // field that determines the variant
	variants []variantFit
	message  *wireMessage // nil unless frames are protobuf messages
}

// variantFit is the Fit of a variant. value is the value of the field by in its frames.
type variantFit struct {
	value int64
	fit   Fit
}

// integer is an integer at a fixed place in frames.
type integer struct {
	name  string // as in header.n; "" means that there is none
	at    int    // offset of field in the frame, bytes
	field Field
}

// in reads the integer from a frame, which must have at least i.end() bytes.
func (i *integer) in(frame []byte) int64 {
	return int64(i.value(frame).extended())
}

func (i *integer) value(frame []byte) Value { return Value{field: &i.field, data: frame[i.at:]} }

// end returns the offset in bytes of the first byte after the integer.
func (i *integer) end() int {
	if i.field.Bits > 0 {
		return i.at + (i.field.Bit+i.field.Bits+7)/8
	}
	return i.at + i.field.element()
}

// integer returns the integer field with a name such as header.n.
func (l *Layout) integer(name string) (found integer, err error) {
	errName := fmt.Errorf("want the name of an integer in %s, as in n or header.n", l.Name)
	found.name = name
	levels, fields := strings.Split(name, "."), l.Fields
	for i, level := range levels {
		at := slices.IndexFunc(fields, func(f Field) bool { return f.Name == level })
		if at < 0 {
			return found, errName
		}
		f := fields[at]
		isLast := i == len(levels)-1
		switch {
		case f.Count != nil, isLast && !f.Type.integer(), !isLast && f.Type != Struct, i == 0 && f.Name == l.Tail:
			return found, errName
		case f.Scale != 0:
			return found, errors.New("this integer cannot have a scale")
		}
		found.at += f.Offset
		found.field, fields = f, f.Fields
	}
	return found, nil
}

// ValueOf parses a value of the integer field name, as in header.kind. text is a number, or a name from the field's Words.
func (l *Layout) ValueOf(name, text string) (int64, error) {
	found, err := l.integer(name)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", strconv.QuoteToASCII(name), err)
	}
	for _, w := range found.field.Words {
		if w.Name == text {
			return w.Value, nil
		}
	}
	value, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: want a value of %s: a number, or one of its words", strconv.QuoteToASCII(text), name)
	}
	return value, nil
}

// counters returns the fields with the number of elements in each dimension of the tail, outermost first.
func (l *Layout) counters() (list []integer, err error) {
	if l.Counter == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(l.Counter, "*") {
		found, err := l.integer(name)
		if err != nil {
			return nil, err
		}
		list = append(list, found)
	}
	return list, nil
}

// Fit returns the Fit of a layout without errors in Check.
func (l *Layout) Fit() Fit {
	f := Fit{name: l.Name, size: l.Size, tail: l.Tail, counter: l.Counter}
	if l.protobuf != nil {
		f.message = l.protobuf.fit
	}
	for i := range l.Variants {
		v := &l.Variants[i]
		f.variants = append(f.variants, variantFit{v.Value, v.Layout.Fit()})
		if l.By != "" {
			f.by, _ = v.Layout.integer(l.By)
			f.by.field.Words = nil
		}
	}
	if l.Tail == "" {
		return f
	}
	tail := &l.Fields[len(l.Fields)-1]
	each, _ := product(tail.Count, tail.element())
	f.offset, f.each = tail.Offset, each*tail.element()
	f.counters, _ = l.counters()
	for i := range f.counters {
		f.counters[i].field.Words = nil // saves memory
	}
	return f
}

// ByContent reports whether Check needs the bytes of a frame, and not only its size.
func (f *Fit) ByContent() bool {
	return f.message != nil || f.counters != nil || f.by.name != "" || slices.ContainsFunc(f.variants, func(v variantFit) bool { return v.fit.ByContent() })
}

// Check returns how a frame does not match the layout, or nil if it does. frame may be nil unless ByContent.
func (f *Fit) Check(size int, frame []byte) error {
	switch {
	case f.message != nil:
		if err := f.message.check(frame); err != nil {
			return fmt.Errorf("%d bytes are not a %s: %w", size, f.name, err)
		}
		return nil
	case f.variants != nil:
		_, err := f.variant(size, frame)
		return err
	case f.tail != "":
		_, err := f.dimensions(size, frame)
		return err
	case size != f.size:
		return fmt.Errorf("%d bytes do not fit %s, which has %d", size, f.name, f.size)
	}
	return nil
}

// variant returns the index of the variant of a frame, and an error if the frame does not match that variant.
func (f *Fit) variant(size int, frame []byte) (int, error) {
	if f.by.name == "" {
		names := make([]string, len(f.variants))
		for i := range f.variants {
			if f.variants[i].fit.Check(size, frame) == nil {
				return i, nil
			}
			names[i] = f.variants[i].fit.name
		}
		return 0, fmt.Errorf("%d bytes fit none of %s", size, strings.Join(names, ", "))
	}
	if size < f.by.end() {
		return 0, fmt.Errorf("%d bytes do not fit %s, whose %s ends at %d", size, f.name, f.by.name, f.by.end())
	}
	value := f.by.in(frame)
	i := slices.IndexFunc(f.variants, func(v variantFit) bool { return v.value == value })
	if i < 0 {
		return 0, fmt.Errorf("%s is %d, for which %s has no layout", f.by.name, value, f.name)
	}
	return i, f.variants[i].fit.Check(size, frame)
}

// dimensions returns the number of elements in each dimension of the tail of a frame, outermost first.
func (f *Fit) dimensions(size int, frame []byte) (list []int, err error) {
	room := size - f.offset
	if room < 0 {
		return nil, fmt.Errorf("%d bytes do not fit %s, whose %s begins at %d", size, f.name, f.tail, f.offset)
	}
	if f.counters == nil {
		if room%f.each != 0 {
			return nil, fmt.Errorf("%d bytes do not fit %s, whose %s begins at %d and has elements of %d", size, f.name, f.tail, f.offset, f.each)
		}
		return []int{room / f.each}, nil
	}
	var counts []string
	n, fits := 1, true
	for i := range f.counters {
		counts = append(counts, f.counters[i].value(frame).number())
		count := f.counters[i].in(frame) // also negative if an unsigned integer has more than 63 bits
		if fits = fits && count >= 0 && count <= maxSize; fits {
			list, n = append(list, int(count)), min(n*int(count), maxSize)
		}
	}
	if n == 0 {
		clear(list) // if one dimension is 0, the array has no elements: make all dimensions 0
	}
	if !fits || n > room/f.each || size > max(f.size, f.offset)+n*f.each {
		return nil, fmt.Errorf("%d bytes do not fit %s, whose %s is %s", size, f.name, f.counter, strings.Join(counts, "*"))
	}
	return list, nil
}
