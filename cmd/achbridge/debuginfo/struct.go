package debuginfo

import (
	"debug/dwarf"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"achbridge/bridge/layout"
)

// Layout returns the layout of a struct, and warnings for the user, such as about pointers. For each union in the struct, the layout
// has the member whose name is in chosen, or else the first member. It is an error if no union has a member that chosen names.
func (p *Program) Layout(name string, chosen ...string) (l *layout.Layout, warnings []string, err error) {
	defer damaged(p.path, &err)
	list := p.called(name)
	if len(list) == 0 {
		return nil, nil, fmt.Errorf("%s: struct %q: %w", p.path, name, fs.ErrNotExist)
	}
	for i, s := range list {
		if p.isProtobufC(s) {
			return nil, nil, fmt.Errorf("%s: struct %s: a message of protobuf-c, which frames contain encoded; import its .proto file", p.path, plain(s.name))
		}
		w := &walker{data: p.data, chosen: chosen, unused: slices.Clone(chosen)}
		one, err := w.layout(s)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: struct %s: %w", p.path, plain(s.name), err)
		}
		if len(w.unused) > 0 {
			return nil, nil, fmt.Errorf("%s: struct %s: no union in it has the member %s", p.path, plain(s.name), plain(w.unused[0]))
		}
		if i > 0 && !reflect.DeepEqual(one, l) {
			return nil, nil, fmt.Errorf("%s: struct %s exists twice, with differences: %d bytes in %s, %d bytes in %s; use the object of the one you mean",
				p.path, plain(s.name), list[0].size, p.source(list[0]), s.size, p.source(s))
		}
		l = one
		if i == 0 {
			warnings = w.warnings
			if language, _ := s.unit.Val(dwarf.AttrLanguage).(int64); language == languageRust {
				warnings = append(warnings, "Rust may reorder fields with each build, unless the struct is repr(C)")
			}
		}
	}
	return l, warnings, nil
}

const languageRust = 0x1c

// maxDepth limits the depth of types in one another while reading. A layout has fewer levels.
const maxDepth = 64

// walker turns entries of the debug information into fields.
type walker struct {
	data     *dwarf.Data
	warnings []string
	fields   int
	char     layout.Type // the integer that char is
	open     bool        // the field that was read last is an array without a length
	chosen   []string    // names of the union members that the layout must have
	unused   []string    // names in chosen of which no union has been found yet
	isFirst  bool        // the type that was read last is a union with no member in chosen, so its first member was used
}

func (w *walker) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.warnings, text) {
		w.warnings = append(w.warnings, text)
	}
}

func (w *walker) layout(s found) (*layout.Layout, error) {
	e, err := w.entry(s.at)
	if err != nil {
		return nil, err
	}
	all, err := w.members(e, 0)
	if err != nil {
		return nil, err
	}
	if w.isFirst {
		w.warn("%s is a union: its first member is shown; --union MEMBER chooses another", clean(s.name))
	}
	l := &layout.Layout{Name: clean(strings.Join(append([]string{s.name}, w.chosen...), "_")), Size: s.size, Fields: all}
	if w.open && len(all) > 0 {
		l.Tail = all[len(all)-1].Name
	}
	w.oneElement(l)
	if problems := l.Check(); len(problems) > 0 {
		return nil, fmt.Errorf("%s%s", nameOf(l, problems[0].Path), problems[0].Text)
	}
	return l, nil
}

// oneElement makes the last field of l the tail if it is declared with one element, as in x[1], and if there are fields with usual
// names for the number of elements, such as n. Otherwise it warns that frames may have more elements.
func (w *walker) oneElement(l *layout.Layout) {
	last := len(l.Fields) - 1
	if last < 0 || l.Tail != "" || l.Fields[last].Count == nil || l.Fields[last].Count[0] != 1 {
		return
	}
	tailed := *l
	tailed.Fields = slices.Clone(l.Fields)
	tail := &tailed.Fields[last]
	if tailed.Tail, tail.Count = tail.Name, tail.Count[1:]; len(tail.Count) == 0 {
		tail.Count = nil
	}
	for _, tailed.Counter = range []string{"rows*cols", "n", l.Fields[0].Name + ".n"} {
		if len(tailed.Check()) == 0 {
			*l = tailed
			w.warn("%s has %s elements; if it always has one, remove tail and count from the layout, and add count: 1 to the field", tail.Name, tailed.Counter)
			return
		}
	}
	w.warn("%s is declared with one element; if frames have more, remove count from the field, and add to the layout tail: %s, and count: FIELD or count: rest", tail.Name, tail.Name)
}

// nameOf returns the name of the field at path, for an error.
func nameOf(l *layout.Layout, path []int) (name string) {
	fields := l.Fields
	for _, i := range path {
		name += fields[i].Name + ": "
		fields = fields[i].Fields
	}
	return name
}

// clean returns a name that is valid in a layout: Vec(double,3) for Vec<double,3>.
func clean(name string) string {
	text := strings.Map(func(r rune) rune {
		switch {
		case r == '<':
			return '('
		case r == '>':
			return ')'
		case layout.Printable(string(r)) != "":
			return '_'
		}
		return r
	}, name)
	return text[:min(len(text), layout.MaxName)]
}

func (w *walker) entry(at dwarf.Offset) (*dwarf.Entry, error) {
	r := w.data.Reader()
	r.Seek(at)
	e, err := r.Next()
	if err == nil && e == nil {
		err = errors.New("this file is damaged: an entry is missing")
	}
	return e, err
}

// children returns the entries directly below e.
func (w *walker) children(e *dwarf.Entry) (list []*dwarf.Entry, err error) {
	if !e.Children {
		return nil, nil
	}
	r := w.data.Reader()
	r.Seek(e.Offset)
	if _, err := r.Next(); err != nil {
		return nil, err
	}
	for {
		c, err := r.Next()
		if err != nil || c == nil || c.Tag == 0 {
			return list, err
		}
		list = append(list, c)
		skip(r, c)
	}
}

// skip moves r past the children of e, which was just read. dwarf.Reader.SkipChildren is recursive,
// and a file may have as many levels as bytes.
func skip(r *dwarf.Reader, e *dwarf.Entry) {
	if !e.Children {
		return
	}
	if next, ok := e.Val(dwarf.AttrSibling).(dwarf.Offset); ok && next > e.Offset {
		r.Seek(next)
		return
	}
	for depth := 1; depth > 0; {
		c, err := r.Next()
		switch {
		case err != nil || c == nil:
			return // the next read returns the same error
		case c.Tag == 0:
			depth--
		case c.Children:
			depth++
		}
	}
}

// members returns the fields of a struct in the order of their offsets, with the fields of base
// classes and of structs without a name.
func (w *walker) members(e *dwarf.Entry, depth int) (all []layout.Field, err error) {
	if e.Val(dwarf.AttrDeclaration) != nil {
		return nil, errors.New("it is only declared here; use the object of a file that uses it")
	}
	list, err := w.children(e)
	if err != nil {
		return nil, err
	}
	isUnion, isChosen := e.Tag == dwarf.TagUnionType, false
	if isUnion {
		list, isChosen = w.choice(list)
	}
	defer func() { w.isFirst = isUnion && !isChosen }()
	open, taken := map[string]bool{}, map[string]bool{}
	for _, c := range list {
		var fields []layout.Field
		w.open = false
		switch c.Tag {
		case dwarf.TagInheritance:
			fields, err = w.base(c, depth)
		case dwarf.TagMember:
			fields, err = w.member(c, depth)
		case dwarf.TagVariantPart:
			return nil, errVariants
		}
		if err != nil {
			return nil, err
		}
		for _, f := range fields {
			f.Name = free(f.Name, taken)
			taken[f.Name] = true
			open[f.Name] = w.open
			all = append(all, f)
		}
		if isUnion && len(all) > 0 {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b layout.Field) int { return 8*(a.Offset-b.Offset) + a.Bit - b.Bit })
	last := ""
	if len(all) > 0 {
		last = all[len(all)-1].Name
	}
	w.open = open[last]
	// Before the last field, an array without a length only marks an offset and has no bytes.
	return slices.DeleteFunc(all, func(f layout.Field) bool { return open[f.Name] && f.Name != last }), nil
}

// choice returns, of the members of a union, only the one whose name is in w.chosen, and true. If there is none, it returns all
// members and false.
func (w *walker) choice(members []*dwarf.Entry) ([]*dwarf.Entry, bool) {
	for i, m := range members {
		if name, _ := m.Val(dwarf.AttrName).(string); slices.Contains(w.chosen, name) {
			w.unused = slices.DeleteFunc(w.unused, func(one string) bool { return one == name })
			return members[i : i+1], true
		}
	}
	return members, false
}

// free returns a name that is not in taken. If name is taken by a base class or another field, free adds
// underscores, or a number if the result would be too long.
func free(name string, taken map[string]bool) string {
	for n := 2; taken[name]; n++ {
		if longer := "_" + name; len(longer) <= layout.MaxName {
			name = longer
		} else {
			name = fmt.Sprintf("%s_%d", name[:layout.MaxName-7], n)
		}
	}
	return name
}

var errVariants = errors.New("an enum with data in it, whose bytes are not known")

// base returns the fields of a base class.
func (w *walker) base(e *dwarf.Entry, depth int) ([]layout.Field, error) {
	if virtual, _ := e.Val(dwarf.AttrVirtuality).(int64); virtual != 0 {
		return nil, errors.New("it has a virtual base, which is elsewhere in each program")
	}
	if w.fields++; w.fields > layout.MaxFields {
		return nil, fmt.Errorf("more than %d fields and bases", layout.MaxFields)
	}
	at, err := place(e)
	if err != nil {
		return nil, err
	}
	f, err := w.typeOf(e, depth+1)
	if err != nil || f.Type != layout.Struct {
		return nil, err // a base without fields has no bytes
	}
	return moved(f.Fields, at, f.Union), nil
}

// moved changes fields of an inner struct into fields of the outer struct, and returns them.
func moved(fields []layout.Field, by int, union bool) []layout.Field {
	for i := range fields {
		fields[i].Offset += by
		fields[i].Union = fields[i].Union || union
	}
	return fields
}

// member returns the field of a member, or the fields of a struct without a name.
func (w *walker) member(e *dwarf.Entry, depth int) ([]layout.Field, error) {
	if e.Val(dwarf.AttrExternal) != nil || e.Val(dwarf.AttrDeclaration) != nil {
		return nil, nil // static
	}
	name, _ := e.Val(dwarf.AttrName).(string)
	if strings.HasPrefix(name, "_vptr") {
		return nil, errors.New("it has virtual functions: its first bytes are an address that means nothing on another host")
	}
	if w.fields++; w.fields > layout.MaxFields {
		return nil, fmt.Errorf("more than %d fields", layout.MaxFields)
	}
	at, err := place(e)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", plain(name), err)
	}
	f, err := w.typeOf(e, depth+1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", plain(name), err)
	}
	if f.Type == "" {
		return nil, nil // no bytes
	}
	if name == "" && f.Type == layout.Struct && f.Count == nil {
		return moved(f.Fields, at, f.Union), nil
	}
	f.Name = clean(strings.NewReplacer(".", "_", "[", "_", "]", "_").Replace(name))
	if f.Name == "" {
		f.Name = fmt.Sprintf("unnamed_%d", at)
	}
	f.Offset = at
	w.bits(e, &f)
	if f.Type == layout.Pointer {
		w.warn("%s is a pointer, which means nothing on another host", f.Name)
	}
	if f.Union {
		w.warn("%s is a union: its first member is shown; --union MEMBER chooses another", f.Name)
	}
	return []layout.Field{f}, nil
}

// bits sets the position of a bit field. DWARF 5 counts bits from the beginning of the struct,
// DWARF 3 from the highest bit of the number that contains the bit field.
func (w *walker) bits(e *dwarf.Entry, f *layout.Field) {
	n, ok := e.Val(dwarf.AttrBitSize).(int64)
	if !ok {
		return
	}
	first := int64(8 * f.Offset)
	if at, ok := e.Val(dwarf.AttrDataBitOffset).(int64); ok {
		first += at
	} else if at, ok := e.Val(dwarf.AttrBitOffset).(int64); ok {
		holder := int64(f.Type.OwnSize())
		if size, ok := e.Val(dwarf.AttrByteSize).(int64); ok {
			holder = size
		}
		first += 8*holder - at - n
	}
	if f.Type == layout.Char { // no text
		f.Type = w.char
	}
	f.Bits, f.Offset, f.Bit = int(n), int(first/8), int(first%8)
}

// place returns the offset of a member.
func place(e *dwarf.Entry) (int, error) {
	switch at := e.Val(dwarf.AttrDataMemberLoc).(type) {
	case nil:
		return 0, nil
	case int64:
		if at >= 0 && at <= 1<<30 {
			return int(at), nil
		}
	case []byte: // DW_OP_plus_uconst
		if len(at) > 1 && len(at) < 6 && at[0] == 0x23 {
			n := 0
			for i, b := range at[1:] {
				n |= int(b&0x7f) << (7 * i)
			}
			return n, nil
		}
	}
	return 0, errors.New("its place is computed when the program runs")
}
