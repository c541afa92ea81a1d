package layout

import (
	"fmt"
	"slices"
)

// Fit says which frames fit a layout. It is all that is needed of the layout for that.
type Fit struct {
	name       string
	size       int
	tail       string // "": frames have one size
	offset     int    // of the tail
	each       int    // bytes of an element of the tail
	counter    Field  // says how many elements the tail has
	hasCounter bool
}

// Fit returns what says which frames fit a layout that is known to be good.
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

// ByContent reports whether Check needs the bytes of a frame, and not its size alone.
func (f *Fit) ByContent() bool { return f.hasCounter }

// Check says how a frame does not fit; nil if it does. Unless ByContent, frame may be nil.
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

// elements is how many elements the tail of a frame has.
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
