package values

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/ui"
)

// tree is a value, or a list of trees with the same field. A list may hold only its first elements; more is the number
// of the others.
type tree struct {
	value  layout.Value // the array of a list; the zero Value if the elements belong to several arrays
	isList bool
	list   []tree
	more   int
}

// grown returns the tree of a value, with at most most elements of each array.
func grown(v layout.Value, most int) tree {
	n, ok := v.Len()
	if !ok {
		return tree{value: v}
	}
	t := tree{value: v, isList: true, more: max(0, n-most)}
	for i := range n - t.more {
		t.list = append(t.list, grown(v.At(i), most))
	}
	return t
}

// member returns member i of all structs in a tree.
func (t tree) member(i, most int) tree {
	if !t.isList {
		return grown(t.value.Member(i), most)
	}
	picked := tree{isList: true, more: t.more}
	for _, element := range t.list {
		picked.list = append(picked.list, element.member(i, most))
	}
	return picked
}

// depth returns the number of nested lists.
func (t tree) depth() (n int) {
	for ; t.isList; t = t.list[0] {
		if n++; len(t.list) == 0 {
			break
		}
	}
	return n
}

var errNoArray = errors.New("is not an array")

// isAbsent reports whether the tree has absent values, and only these. An empty list is not absent.
func (t tree) isAbsent() bool { return t.isEmpty() && t.hasAbsent() }

func (t tree) hasAbsent() bool {
	if !t.isList {
		return t.value.IsAbsent()
	}
	return slices.ContainsFunc(t.list, tree.hasAbsent)
}

// isEmpty reports whether no value in the tree is present.
func (t tree) isEmpty() bool {
	if !t.isList {
		return t.value.IsAbsent()
	}
	return !slices.ContainsFunc(t.list, func(element tree) bool { return !element.isEmpty() })
}

// at returns the tree with element i in place of each list at nesting depth outer. If open is set, the length of the lists differs
// between frames, and an element after the end of a list is absent. Otherwise such an element is an error.
func (t tree) at(i, outer int, open bool) (tree, error) {
	switch {
	case !t.isList:
		return t, errNoArray
	case outer == 0 && i < len(t.list):
		return t.list[i], nil
	case outer == 0 && open:
		return grown(t.value.Missing(), 0), nil
	case outer == 0:
		return t, fmt.Errorf("has %d elements, from 0", len(t.list))
	}
	picked := tree{isList: true, more: t.more}
	for _, element := range t.list {
		one, err := element.at(i, outer-1, open)
		if err != nil {
			return t, err
		}
		picked.list = append(picked.list, one)
	}
	return picked, nil
}

// selection is a part of a frame, with its path as the user writes it.
type selection struct {
	path  string
	field *layout.Field
	tree  tree
	union bool // the bytes may have another meaning, as in a C union
	open  bool // the number of elements of an enclosing array differs between frames
	outer int  // number of nested lists in tree that belong to enclosing arrays
}

// whole returns the selection of a whole frame.
func whole(root layout.Value) selection {
	return selection{field: root.Field(), tree: tree{value: root}}
}

// within returns the selection of field i of a struct, with the given path.
func (s selection) within(i int, path string, most int) selection {
	f := &s.field.Fields[i]
	return selection{path, f, s.tree.member(i, most), s.union || f.Union, s.open || f.IsOpen(), s.tree.depth()}
}

// isAbsent reports whether the frame has no value of the selection.
func (s selection) isAbsent() bool { return s.tree.isAbsent() }

// hasMembers reports whether the selection is a struct, or an array of structs, with fields. A protobuf message may have no fields.
func (s selection) hasMembers() bool { return s.field.Type == layout.Struct && len(s.field.Fields) > 0 }

// element returns the selection of an element of s, with the given path.
func (s selection) element(path string, element tree) selection {
	s.path, s.tree = path, element
	return s
}

// members returns the parts of a struct, or of all structs of an array.
func (s selection) members(most int) (list []selection) {
	path := s.path
	if s.tree.depth() > s.outer {
		path += "[]"
	}
	if path != "" {
		path += "."
	}
	for i := range s.field.Fields {
		list = append(list, s.within(i, path+s.field.Fields[i].Name, most))
	}
	return list
}

var steps = regexp.MustCompile(`[^.\[\]]+|\[\d*\]`)

// find returns the part of a frame that a path such as joint[2].pos names. joint[].pos and joint.pos name the pos of all joints,
// and joint[].pos[0] names element 0 of the pos of each joint. An element that this frame does not have, but others can have, is
// absent.
func find(root layout.Value, path string, most int) (selection, error) {
	s := whole(root)
	outerLists := 0 // number of lists of which the path means all elements, so that an index applies inside each element
	for _, step := range steps.FindAllString(path, -1) {
		if step == "[]" {
			outerLists++
			continue
		}
		if step[0] != '[' {
			next, err := s.named(step, path, most)
			if err != nil {
				return s, err
			}
			outerLists = s.tree.depth()
			s = next
			continue
		}
		i, err := strconv.Atoi(step[1 : len(step)-1])
		if err != nil { // more digits than any array index has
			i = math.MaxInt
		}
		if s.tree, err = s.tree.at(i, outerLists, s.open); err != nil {
			return s, ui.Usage(fmt.Errorf("field %q: %s %w", path, s.field.Name, err), "")
		}
	}
	s.path = path
	return s, nil
}

// elementPath returns the path of element i of a list: it fills in the first [] of the list's path.
func elementPath(path string, i int) string {
	before, after, _ := strings.Cut(path, "[]")
	return fmt.Sprintf("%s[%d]%s", before, i, after)
}

// findIn does what find does for a layout that may have variants. If only other variants have the path, the part is absent.
func findIn(l *layout.Layout, root layout.Value, path string, most int) (selection, error) {
	s, err := find(root, path, most)
	if err == nil {
		return s, nil
	}
	for _, other := range l.Absent() {
		if s, err := find(other, path, most); err == nil {
			return s, nil
		}
	}
	return s, err
}

func (s selection) named(name, path string, most int) (selection, error) {
	var names []string
	for i := range s.field.Fields {
		f := &s.field.Fields[i]
		if f.Name == name {
			return s.within(i, name, most), nil
		}
		names = append(names, f.Name)
	}
	if names == nil {
		return s, ui.Usage(fmt.Errorf("field %q: %s has no fields", path, s.field.Name), "")
	}
	return s, ui.Usage(fmt.Errorf("field %q: %s has no %s", path, s.field.Name, name), "its fields are "+ui.AndList(names))
}

// shown returns a value as text for people; strings are quoted, and an absent value is "-".
func (t tree) shown() string {
	if !t.isList {
		if t.value.IsAbsent() {
			return "-"
		}
		switch text := t.value.Text(); t.value.Field().Type {
		case layout.Struct:
			return "{}" // a protobuf message without fields
		case layout.Char, layout.String:
			return strconv.Quote(text)
		default:
			return text
		}
	}
	var list []string
	for _, element := range t.list {
		list = append(list, element.shown())
	}
	if t.more > 0 {
		list = append(list, fmt.Sprintf("%d more", t.more))
	}
	return "[" + strings.Join(list, ", ") + "]"
}
