package values

import (
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
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
	folded     = 16   // elements of an array on a line, unless the user requested the field
	maxColumns = 4096 // maximum columns of CSV
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
	headed     bool              // the header line of CSV has been printed
	mismatched bool              // the previous frame did not match the layout
}

// Take sets the layout of the next frames. CSV output then gets another header line.
func (p *Printer) Take(l *layout.Layout) {
	p.Layout, p.before, p.headed, p.mismatched = l, nil, false, false
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
	switch p.Form {
	case CSV:
		return p.csv(at, parts)
	case JSON:
		return p.json(at, parts)
	}
	return p.lines(at, frame, parts), nil
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
		return selection{field: root.Field(), tree: tree{value: root}}.members(most), nil
	}
	for _, path := range p.Fields {
		s, err := find(root, p.Layout.Tail, path, most)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func (p *Printer) lines(at time.Time, frame []byte, parts []selection) []byte {
	var names, texts []string
	width, seen := 0, map[string]string{}
	var add func([]selection)
	add = func(list []selection) {
		for _, s := range list {
			if s.field.Type == layout.Struct {
				add(s.members(folded))
				continue
			}
			text := s.tree.shown() + s.marks()
			seen[s.path] = text
			if before, ok := p.before[s.path]; p.Form == Changes && ok && before == text {
				continue
			}
			names, texts = append(names, s.path), append(texts, text)
			width = max(width, len(s.path))
		}
	}
	add(parts)
	p.before = seen
	if len(names) == 0 {
		return nil
	}
	out := fmt.Appendf(nil, "--- %s  %d bytes  %s\n", at.Format(timeFormat), len(frame), p.Layout.Name)
	columns := 0
	if p.Columns != nil {
		columns = p.Columns()
	}
	for i, name := range names {
		out = fmt.Appendf(out, "%-*s  %s\n", width+1, name+":", broken(texts[i], width+3, columns))
	}
	return out
}

// Page returns a frame as the lines of a page: the type, then the values. For a frame that does not match the layout, it
// returns the reason.
func Page(l *layout.Layout, frame []byte) []string {
	if _, err := l.Decode(frame); err != nil {
		return []string{"values  " + err.Error()}
	}
	p := Printer{Layout: l}
	text, err := p.Frame(time.Time{}, frame)
	if err != nil {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	lines[0] = fmt.Sprintf("values  %s, %d bytes", l.Name, len(frame))
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

func (p *Printer) csv(at time.Time, parts []selection) ([]byte, error) {
	cells := []cell{{"%time", at.Format(time.RFC3339Nano)}}
	for _, s := range parts {
		cells = p.cells(cells, s.path, s)
		if len(cells) > maxColumns {
			return nil, ui.Usage(fmt.Errorf("CSV: more than %d columns", maxColumns), "name the fields: --field NAME")
		}
	}
	var names, texts []string
	for _, c := range cells {
		names, texts = append(names, c.name), append(texts, c.text)
	}
	var out strings.Builder
	w := csv.NewWriter(&out)
	if !p.headed {
		_ = w.Write(names)
	}
	p.headed = true
	_ = w.Write(texts)
	w.Flush()
	return []byte(out.String()), nil
}

// cells adds the columns of a part. A tail, whose length differs between frames, is one column, with blanks between its
// elements.
func (p *Printer) cells(cells []cell, path string, s selection) []cell {
	tail := inTail(s.path, p.Layout.Tail)
	switch {
	case len(cells) > maxColumns:
	case s.field.Type == layout.Struct && (tail || !s.tree.isList):
		s.path = path
		for _, m := range s.members(math.MaxInt) {
			cells = p.cells(cells, m.path, m)
		}
	case s.tree.isList && tail:
		return append(cells, cell{path, strings.Join(s.tree.plain(nil), " ")})
	case s.tree.isList:
		for i, element := range s.tree.list {
			cells = p.cells(cells, elementPath(path, i), selection{s.path, s.field, element, s.union})
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

func (p *Printer) json(at time.Time, parts []selection) ([]byte, error) {
	out := fmt.Appendf(nil, `{"time":%q,"type":%q,"values":`, at.Format(time.RFC3339Nano), p.Layout.Name)
	out, err := object(out, parts)
	return append(out, "}\n"...), err
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
	if s.field.Type == layout.Struct {
		return object(out, selection{field: s.field, tree: t}.members(math.MaxInt))
	}
	if t.value.IsNumber() {
		return append(out, t.value.Text()...), nil
	}
	text, err := json.Marshal(t.value.Text())
	return append(out, text...), err
}
