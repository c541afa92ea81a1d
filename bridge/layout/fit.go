package layout

import (
	"fmt"
	"slices"
)

// Fit checks whether frames match a layout. It holds only the parts of the layout that this needs.
type Fit struct {
	name       string
	size       int
	tail       string // name of the tail; "" means that all frames have the same size
	offset     int    // offset of the tail, bytes
	each       int    // size of an element of the tail, bytes
	counter    Field  // field with the number of elements of the tail
	hasCounter bool
}

// Fit returns the Fit of a layout without errors in Check.
func (l *Layout) Fit() Fit {
	f := Fit{name: l.Name, size: l.Size, tail: l.Tail, hasCounter: l.Counter != ""}
	if l.Tail == "" {
		return f
	}
	tail := &l.Fields[len(l.Fields)-1]
	each, _ := product(tail.Count, tail.element())
	f.offset, f.each = tail.Offset, each*tail.element()
	if f.hasCounter {
		f.counter = l.Fields[slices.IndexFunc(l.Fields, func(f Field) bool { return f.Name == l.Counter })]
		f.counter.Words = nil
	}
	return f
}

// ByContent reports whether Check needs the bytes of a frame, and not only its size.
func (f *Fit) ByContent() bool { return f.hasCounter }

// Check returns how a frame does not match the layout, or nil if it does. frame may be nil unless ByContent.
func (f *Fit) Check(size int, frame []byte) error {
	if f.tail != "" {
		_, err := f.elements(size, frame)
		return err
	}
	if size != f.size {
		return fmt.Errorf("%d bytes do not fit %s, which has %d", size, f.name, f.size)
	}
	return nil
}

// elements returns the number of elements in the tail of a frame.
func (f *Fit) elements(size int, frame []byte) (int, error) {
	room := size - f.offset
	if room < 0 {
		return 0, fmt.Errorf("%d bytes do not fit %s, whose %s begins at %d", size, f.name, f.tail, f.offset)
	}
	if !f.hasCounter {
		if room%f.each != 0 {
			return 0, fmt.Errorf("%d bytes do not fit %s, whose %s begins at %d and has elements of %d", size, f.name, f.tail, f.offset, f.each)
		}
		return room / f.each, nil
	}
	n := Value{&f.counter, nil, frame[f.counter.Offset:]}.bits()
	if n > uint64(room/f.each) || size > max(f.size, f.offset)+int(n)*f.each {
		return 0, fmt.Errorf("%d bytes do not fit %s, whose %s says %d elements", size, f.name, f.counter.Name, n)
	}
	return int(n), nil
}
