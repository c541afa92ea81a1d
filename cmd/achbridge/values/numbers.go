package values

import (
	"fmt"
	"math"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/ui"
)

// Number is one number of a frame.
type Number struct {
	Path, Unit string
	X          float64
}

// Numbers returns the numbers of a frame that the paths name. A path of an array or a struct names all its numbers. The
// error is one of layout.Decode if the frame does not match the layout; otherwise it names the path without a number.
func Numbers(l *layout.Layout, frame []byte, paths []string) (list []Number, err error) {
	root, err := l.Decode(frame)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		s, err := findIn(l, root, path, math.MaxInt)
		if err != nil {
			return nil, err
		}
		before := len(list)
		if list = s.numbers(list); len(list) == before && !s.open && !s.isAbsent() {
			return nil, ui.Usage(fmt.Errorf("field %q: no number", path), "achbridge echo shows what is there")
		}
	}
	return list, nil
}

func (s selection) numbers(list []Number) []Number {
	if s.tree.isList {
		for i, element := range s.tree.list {
			list = s.element(elementPath(s.path, i), element).numbers(list)
		}
		return list
	}
	if s.isAbsent() {
		return list
	}
	if s.field.Type == layout.Struct {
		for _, m := range s.members(math.MaxInt) {
			list = m.numbers(list)
		}
		return list
	}
	if x, ok := s.tree.value.Number(); ok {
		list = append(list, Number{s.path, s.field.Unit, x})
	}
	return list
}
