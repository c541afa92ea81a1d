package values

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/ui"
)

// tree is a value, or a list of trees with the same field. A list may hold only its first elements; more is the number
// of the others.
type tree struct {
	value  layout.Value
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
	t := tree{isList: true, more: max(0, n-most)}
	for i := range n - t.more {
		t.list = append(t.list, grown(v.At(i), most))
	}
	return t
}

// member returns member i of all structs in a tree.
func (t tree) member(i, most int) tree {
	if !t.isList {
		return grown(t.value.Members()[i], most)
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

// at returns element i of all lists at nesting depth outer. The error describes what the tree has instead.
func (t tree) at(i, outer int) (tree, error) {
	switch {
	case !t.isList:
		return t, errNoArray
	case outer == 0 && i < len(t.list):
		return t.list[i], nil
	case outer == 0:
		return t, fmt.Errorf("has %d elements, from 0", len(t.list))
	}
	picked := tree{isList: true, more: t.more}
	for _, element := range t.list {
		one, err := element.at(i, outer-1)
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
}

// members returns the parts of a struct, or of all structs of an array.
func (s selection) members(most int) (list []selection) {
	path := s.path
	if s.tree.isList {
		path += "[]"
	}
	if path != "" {
		path += "."
	}
	for i := range s.field.Fields {
		f := &s.field.Fields[i]
		list = append(list, selection{path + f.Name, f, s.tree.member(i, most), s.union || f.Union})
	}
	return list
}

var steps = regexp.MustCompile(`[^.\[\]]+|\[\d*\]`)

// find returns the part that a path such as joint[2].pos names. joint[].pos and joint.pos name the pos of all joints,
// and joint[].pos[0] names its element 0 in each joint. Elements that the tail of this frame does not have give an empty
// part.
func find(root layout.Value, tail, path string, most int) (selection, error) {
	s := selection{field: root.Field(), tree: tree{value: root}}
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
		next, err := s.tree.at(i, outerLists)
		switch {
		case err == nil:
			s.tree = next
		case !errors.Is(err, errNoArray) && inTail(path, tail):
			s.tree = tree{isList: true}
		default:
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

// inTail reports whether a path begins with the name of the tail.
func inTail(path, tail string) bool { return tail != "" && steps.FindString(path) == tail }

func (s selection) named(name, path string, most int) (selection, error) {
	var names []string
	for i := range s.field.Fields {
		f := &s.field.Fields[i]
		if f.Name == name {
			return selection{name, f, s.tree.member(i, most), s.union || f.Union}, nil
		}
		names = append(names, f.Name)
	}
	if names == nil {
		return s, ui.Usage(fmt.Errorf("field %q: %s has no fields", path, s.field.Name), "")
	}
	return s, ui.Usage(fmt.Errorf("field %q: %s has no %s", path, s.field.Name, name), "its fields are "+ui.AndList(names))
}

// shown returns a value as text for people; strings are quoted.
func (t tree) shown() string {
	if !t.isList {
		if t.value.Field().Type == layout.Char {
			return strconv.Quote(t.value.Text())
		}
		return t.value.Text()
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
