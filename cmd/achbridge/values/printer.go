package values

import (
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/ui"
)

// Form is the output format of values.
type Form int

// Output formats of values.
const (
	Lines   Form = iota // a heading, then one line for each field
	Changes             // like Lines, but only fields that changed
	CSV                 // one line for each frame, after a header line with names
	JSON                // one object for each frame
)

const (
	shownHex   = 128  // hexadecimal digits of a value, unless the user requested the field
	folded     = 16   // elements of an array on a line, unless the user requested the field
	maxColumns = 4096 // maximum columns of CSV
	maxLines   = 4096 // maximum fields shown of a frame, unless the user requested them; only frames with nested messages have more
	maxStructs = 16   // levels of nested structs that have columns for their fields; a deeper struct is one column with JSON
	timeFormat = "15:04:05.000000"
)

// Printer prints the values of frames, one frame after another.
type Printer struct {
	Layout *layout.Layout
	Fields []string // paths such as joint[2].pos; nil means all fields
	Form   Form
	Note   func(format string, args ...any) // prints a remark about a frame that does not match the layout
	// Columns returns the width of the screen, at which long lines are broken. If it is nil or returns 0, the output is
	// not a screen.
	Columns func() int

	before     map[string]string // previous texts by path, for Changes
	columns    []string          // names of the columns of CSV; nil until its header line has been printed
	mismatched bool              // the previous frame did not match the layout
}

// Take sets the layout of the next frames. CSV output then gets another header line.
func (p *Printer) Take(l *layout.Layout) {
	p.Layout, p.before, p.columns, p.mismatched = l, nil, nil, false
}

// Frame returns the text of a frame that was read at that time. It does not decode a frame that does not match the
// layout.
func (p *Printer) Frame(at time.Time, frame []byte) ([]byte, error) {
	root, err := p.Layout.Decode(frame)
	if err != nil {
		return p.unfit(at, frame, err), nil
	}
	p.mismatched = false
	parts, err := p.parts(root)
	if err != nil {
		return nil, err
	}
	name := root.Field().Name
	switch p.Form {
	case CSV:
		return p.csv(at, root, parts)
	case JSON:
		return p.json(at, name, parts)
	}
	return p.lines(at, name, frame, parts), nil
}

func (p *Printer) unfit(at time.Time, frame []byte, why error) []byte {
	if p.Form == Lines || p.Form == Changes {
		return fmt.Appendf(nil, "--- %s  %v\n%s", at.Format(timeFormat), why, hex.Dump(frame))
	}
	if !p.mismatched {
		p.Note("frames are left out: %v", why)
	}
	p.mismatched = true
	return nil
}

// parts returns the requested fields, or all.
func (p *Printer) parts(root layout.Value) (list []selection, err error) {
	most := math.MaxInt
	if p.Fields == nil {
		if p.Form == Lines || p.Form == Changes {
			most = folded
		}
		return whole(root).members(most), nil
	}
	for _, path := range p.Fields {
		s, err := findIn(p.Layout, root, path, most)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func (p *Printer) lines(at time.Time, layoutName string, frame []byte, parts []selection) []byte {
	var names, texts []string
	width, seen, isCut := 0, map[string]string{}, false
	var add func([]selection)
	add = func(list []selection) {
		for _, s := range list {
			if isCut = isCut || p.Fields == nil && len(seen) >= maxLines; isCut {
				return
			}
			if s.hasMembers() && !s.tree.isEmpty() {
				add(present(s.members(folded)))
				continue
			}
			text := s.tree.shown() + s.marks()
			if p.Fields == nil && s.field.Type == layout.Bytes && len(text) > shownHex {
				text = fmt.Sprintf("%s... (%d bytes)", text[:shownHex], len(text)/2)
			}
			seen[s.path] = text
			if before, ok := p.before[s.path]; p.Form == Changes && ok && before == text {
				continue
			}
			names, texts = append(names, s.path), append(texts, text)
			width = max(width, len(s.path))
		}
	}
	if p.Fields == nil {
		parts = present(parts)
	}
	add(parts)
	p.before = seen
	if len(names) == 0 {
		return nil
	}
	out := fmt.Appendf(nil, "--- %s  %d bytes  %s\n", at.Format(timeFormat), len(frame), layoutName)
	columns := 0
	if p.Columns != nil {
		columns = p.Columns()
	}
	for i, name := range names {
		out = fmt.Appendf(out, "%-*s  %s\n", width+1, name+":", broken(texts[i], width+3, columns))
	}
	if isCut {
		out = fmt.Appendf(out, "... more fields; to show some of them: --field NAME\n")
	}
	return out
}

// present returns the parts that are not absent.
func present(list []selection) []selection {
	return slices.DeleteFunc(list, selection.isAbsent)
}

// Page returns a frame as the lines of a page: the type, then the values. For a frame that does not match the layout, it
// returns the reason.
func Page(l *layout.Layout, frame []byte) []string {
	root, err := l.Decode(frame)
	if err != nil {
		return []string{"values  " + err.Error()}
	}
	p := Printer{Layout: l}
	text, err := p.Frame(time.Time{}, frame)
	if err != nil {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	lines[0] = fmt.Sprintf("values  %s, %d bytes", root.Field().Name, len(frame))
	for i := range lines[1:] {
		lines[i+1] = "  " + lines[i+1]
	}
	return lines
}

// marks returns the text displayed after a value.
func (s selection) marks() (text string) {
	if s.field.Unit != "" {
		text = " " + s.field.Unit
	}
	if s.union {
		text += " (union)"
	}
	return text
}

// cell is one column of CSV.
type cell struct{ name, text string }

func (p *Printer) csv(at time.Time, root layout.Value, parts []selection) ([]byte, error) {
	var out strings.Builder
	w := csv.NewWriter(&out)
	if p.columns == nil {
		var err error
		if p.columns, err = p.allColumns(); err != nil {
			return nil, err
		}
		_ = w.Write(append([]string{"%time"}, p.columns...))
	}
	texts := map[string]string{}
	for _, c := range p.cells(root, parts) {
		texts[c.name] = c.text
	}
	row := []string{at.Format(time.RFC3339Nano)}
	for _, name := range p.columns {
		row = append(row, texts[name])
	}
	_ = w.Write(row)
	w.Flush()
	return []byte(out.String()), nil
}

// allColumns returns the names of the columns that frames can have, whatever their variant.
func (p *Printer) allColumns() (names []string, err error) {
	seen := map[string]bool{}
	for _, root := range p.Layout.Absent() {
		parts, err := p.parts(root)
		if err != nil {
			return nil, err
		}
		for _, c := range p.cells(root, parts) {
			if !seen[c.name] {
				seen[c.name] = true
				names = append(names, c.name)
			}
		}
	}
	if len(names) > maxColumns {
		return nil, ui.Usage(fmt.Errorf("CSV: more than %d columns", maxColumns), "name the fields: --field NAME")
	}
	return names, nil
}

// cells returns the columns of the parts of root. If there are more than maxColumns, it returns only some of them, but more than
// maxColumns.
func (p *Printer) cells(root layout.Value, parts []selection) (cells []cell) {
	var outer []*layout.Field
	if fields := root.Field().Fields; p.Fields == nil && len(fields) > 0 {
		outer = []*layout.Field{&fields[0]}
	}
	for _, s := range parts {
		cells = appendCells(cells, s.path, s, outer)
	}
	return cells
}

// appendCells adds the columns of a part. An array whose length differs between frames is one column, with blanks between its
// elements. A message inside another message of the same type is one column with JSON. To find these, outer has the first field of
// each enclosing struct, which identifies its type.
func appendCells(cells []cell, path string, s selection, outer []*layout.Field) []cell {
	switch {
	case len(cells) > maxColumns:
	case s.hasMembers() && (s.open || !s.tree.isList):
		first := &s.field.Fields[0]
		if slices.Contains(outer, first) || len(outer) > maxStructs {
			return append(cells, cell{path, s.asJSON()})
		}
		s.path = path
		for _, m := range s.members(math.MaxInt) {
			cells = appendCells(cells, m.path, m, append(outer, first))
		}
	case s.tree.isList && s.open:
		return append(cells, cell{path, strings.Join(s.tree.plain(nil), " ")})
	case s.tree.isList:
		for i, element := range s.tree.list {
			cells = appendCells(cells, elementPath(path, i), s.element(s.path, element), outer)
		}
	default:
		return append(cells, cell{path, harmless(s.tree.value.Text())})
	}
	return cells
}

func (t tree) plain(list []string) []string {
	if !t.isList {
		return append(list, harmless(t.value.Text()))
	}
	for _, element := range t.list {
		list = element.plain(list)
	}
	return list
}

// harmless returns text with unprintable characters escaped.
func harmless(text string) string {
	for _, r := range text {
		if !strconv.IsPrint(r) || r == '\ufffd' {
			quoted := strconv.Quote(text)
			return quoted[1 : len(quoted)-1]
		}
	}
	return text
}

func (p *Printer) json(at time.Time, layoutName string, parts []selection) ([]byte, error) {
	out := fmt.Appendf(nil, `{"time":%q,"type":%q,"values":`, at.Format(time.RFC3339Nano), layoutName)
	if p.Fields == nil {
		parts = present(parts)
	}
	out, err := object(out, parts)
	return append(out, "}\n"...), err
}

// Object returns the values of a frame as a JSON object. The error describes how the frame does not match the layout.
func Object(l *layout.Layout, frame []byte) ([]byte, error) {
	root, err := l.Decode(frame)
	if err != nil {
		return nil, err
	}
	return object(nil, present(whole(root).members(math.MaxInt)))
}

// object appends the parts as a JSON object, by their paths.
func object(out []byte, parts []selection) ([]byte, error) {
	out = append(out, '{')
	for i, s := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(s.path)
		if err != nil {
			return nil, err
		}
		if out, err = s.json(append(append(out, name...), ':'), s.tree); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// asJSON returns the selected values as JSON, or "" if the frame has none of them.
func (s selection) asJSON() string {
	if s.tree.isEmpty() {
		return ""
	}
	out, _ := s.json(nil, s.tree)
	return string(out)
}

func (s selection) json(out []byte, t tree) ([]byte, error) {
	if t.isList {
		out = append(out, '[')
		for i, element := range t.list {
			if i > 0 {
				out = append(out, ',')
			}
			var err error
			if out, err = s.json(out, element); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	}
	if t.isAbsent() {
		return append(out, "null"...), nil
	}
	if s.field.Type == layout.Struct {
		return object(out, present(s.element("", t).members(math.MaxInt)))
	}
	if t.value.IsNumber() {
		return append(out, t.value.Text()...), nil
	}
	text, err := json.Marshal(t.value.Text())
	return append(out, text...), err
}
