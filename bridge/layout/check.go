package layout

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Limits of a layout.
const (
	maxDepth  = 16      // levels of nested structs
	MaxFields = 4096    // fields of all structs together; the same limit applies to words
	MaxName   = 63      // length of a name, unit or word, bytes
	maxSize   = 1 << 30 // size of a frame, bytes
	maxDims   = 8
)

// MaxText is the largest size of a layout as text in a file or a message, bytes.
const MaxText = 64 << 10

// maxVariants is the maximum number of variants of a layout.
const maxVariants = 64

// Problem is one error in a layout. Path identifies the field: the index in the layout's fields, then in that field's
// fields, and so on. In a layout with variants, the index of the variant comes first. Path is empty if the error is not
// in a field.
type Problem struct {
	Path []int
	Text string
}

// Check returns all errors of a layout, in the order of the fields. It must not run while another goroutine uses the
// layout.
func (l *Layout) Check() []Problem {
	c := &checker{}
	if l.Descriptors != nil {
		c.name(nil, "name", l.Name)
		c.checkProtobuf(l)
	} else if l.Variants == nil {
		if l.By != "" {
			c.add(nil, "by without layouts")
		}
		c.layout(nil, l)
	} else {
		c.variants(l)
	}
	if c.types > MaxFields {
		c.add(nil, "%d fields: want at most %d", c.types, MaxFields)
	}
	if c.words > MaxFields {
		c.add(nil, "%d words of enumerations: want at most %d", c.words, MaxFields)
	}
	return c.problems
}

// layout checks a layout without variants. path has the index of l if l is a variant, otherwise it is empty.
func (c *checker) layout(path []int, l *Layout) {
	c.name(path, "name", l.Name)
	if l.Size < 1 || l.Size > maxSize {
		c.add(path, "size %d: want 1 to %d", l.Size, maxSize)
		return
	}
	if len(l.Fields) == 0 {
		c.add(path, "no fields")
	}
	c.tail(path, l)
	c.fields(path, l.Fields, l.Size, 1, l.Tail != "")
}

// variants checks a layout with variants.
func (c *checker) variants(l *Layout) {
	c.name(nil, "name", l.Name)
	switch {
	case l.Size != 0 || l.Fields != nil || l.Tail != "" || l.Counter != "":
		c.add(nil, "layouts replaces size, fields, tail and count: remove these, or layouts")
		return
	case len(l.Variants) > maxVariants:
		c.add(nil, "%d layouts: want at most %d", len(l.Variants), maxVariants)
		return
	}
	var by integer
	values, bySize := map[int64]bool{}, map[int]string{}
	for i := range l.Variants {
		v, at := &l.Variants[i], []int{i}
		if v.Layout.Variants != nil || v.Layout.By != "" || v.Layout.Descriptors != nil {
			c.add(at, "each of several layouts must be a struct, not a protobuf message or several layouts")
			continue
		}
		before := len(c.problems)
		c.layout(at, &v.Layout)
		if len(c.problems) > before {
			continue
		}
		switch {
		case l.By == "" && v.Value != 0:
			c.add(at, "value without by")
			continue
		case l.By == "":
			if other := bySize[v.Layout.Size]; other != "" && v.Layout.Tail == "" {
				c.add(at, "%s has the same size, %d: want by, the name of the field that determines the layout", other, v.Layout.Size)
			}
			if v.Layout.Tail == "" {
				bySize[v.Layout.Size] = v.Layout.Name
			}
			continue
		case values[v.Value]:
			c.add(at, "duplicate value %d", v.Value)
		}
		values[v.Value] = true
		found, err := v.Layout.integer(l.By)
		switch {
		case err != nil:
			c.add(at, "by %s: %v", strconv.QuoteToASCII(l.By), err)
		case by.name != "" && (found.at != by.at || found.field.Type != by.field.Type || found.field.Bit != by.field.Bit || found.field.Bits != by.field.Bits):
			c.add(at, "by %s: another offset or type than in %s", strconv.QuoteToASCII(l.By), l.Variants[0].Layout.Name)
		case by.name == "":
			by = found
		}
	}
}

type checker struct {
	problems     []Problem
	types, words int
}

func (c *checker) add(path []int, format string, args ...any) {
	c.problems = append(c.problems, Problem{slices.Clone(path), fmt.Sprintf(format, args...)})
}

// Printable returns why a name, unit or word may not be displayed, "" if it may.
func Printable(text string) string {
	if len(text) > MaxName {
		return fmt.Sprintf("longer than %d bytes", MaxName)
	}
	for _, r := range text {
		if r < ' ' || r > '~' || strings.ContainsRune(forbidden, r) {
			return fmt.Sprintf("has the character %s: want printable ASCII without %s", strconv.QuoteRuneToASCII(r), forbidden)
		}
	}
	return ""
}

// forbidden has the printable characters that a terminal, a web page or a schema could interpret.
const forbidden = "<>&\"'`"

func (c *checker) name(path []int, what, text string) {
	if text == "" {
		c.add(path, "%s is missing", what)
	} else {
		c.label(path, what, text)
	}
}

func (c *checker) label(path []int, what, text string) {
	if why := Printable(text); why != "" {
		c.add(path, "%s %s %s", what, strconv.QuoteToASCII(text[:min(len(text), MaxName)]), why)
	}
}

func (c *checker) tail(path []int, l *Layout) {
	if l.Tail == "" {
		if l.Counter != "" {
			c.add(path, "count without tail")
		}
		return
	}
	last := len(l.Fields) - 1
	if last < 0 || l.Fields[last].Name != l.Tail {
		c.add(path, "tail %s: want the name of the last field", strconv.QuoteToASCII(l.Tail))
		return
	}
	at := l.Fields[last].Offset
	for i := range l.Fields[:last] {
		switch f := &l.Fields[i]; {
		case f.Offset >= at:
			c.add(append(slices.Clone(path), i), "begins at or behind the tail")
		case f.Bits > 0 && f.Offset+(f.Bit+f.Bits+7)/8 > at: // a frame may end at the tail
			c.add(append(slices.Clone(path), i), "its bits reach into the tail")
		}
	}
	if l.Fields[last].Bits != 0 {
		c.add(append(slices.Clone(path), last), "a tail of bit fields: there is none in C")
	}
	counters, err := l.counters()
	switch {
	case err != nil:
		c.add(path, "count %s: %v", strconv.QuoteToASCII(l.Counter), err)
	case len(counters)+len(l.Fields[last].Count) > maxDims:
		c.add(path, "count %s: want at most %d dimensions", strconv.QuoteToASCII(l.Counter), maxDims)
	}
}

// fields checks the fields of a struct of size bytes. hasTail means that the last field may extend beyond the struct; it
// counts as one element.
func (c *checker) fields(path []int, fields []Field, size, depth int, hasTail bool) {
	if depth > maxDepth {
		c.add(path, "more than %d structs in one another", maxDepth)
		return
	}
	names := map[string]bool{}
	var taken []span
	for i := range fields {
		if c.types++; c.types > MaxFields {
			return
		}
		f, at := &fields[i], append(slices.Clone(path), i)
		c.name(at, "name", f.Name)
		if strings.ContainsAny(f.Name, ".[]") {
			c.add(at, "name %s: . and [] stand between names", strconv.QuoteToASCII(f.Name))
		}
		if names[f.Name] {
			c.add(at, "duplicate name %s", strconv.QuoteToASCII(f.Name))
		}
		names[f.Name] = true
		room := size
		if hasTail && i == len(fields)-1 {
			room = maxSize
		}
		if s, ok := c.field(at, f, room); ok {
			taken = append(taken, s)
		}
		if f.Type == Struct && f.Size >= 1 {
			c.fields(at, f.Fields, f.Size, depth+1, false)
		}
	}
	slices.SortStableFunc(taken, func(a, b span) int { return a.from - b.from })
	for i := 1; i < len(taken); i++ {
		if taken[i].from < taken[i-1].to {
			c.add(taken[i].path, "overlaps %s", fields[last(taken[i-1].path)].Name)
		}
	}
}

func last(path []int) int { return path[len(path)-1] }

// span is the range of bits of a field.
type span struct {
	from, to int
	path     []int
}

func (c *checker) field(at []int, f *Field, size int) (s span, ok bool) {
	before := len(c.problems)
	c.shape(at, f)
	c.labels(at, f)
	if len(c.problems) > before {
		return s, false
	}
	n, ok := product(f.Count, f.element())
	switch {
	case !ok:
		c.add(at, "count %v of %d bytes: larger than any frame", f.Count, f.element())
		return s, false
	case f.Offset < 0 || f.Offset > size:
		c.add(at, "offset %d: outside the %d bytes of the struct", f.Offset, size)
		return s, false
	}
	s = span{8 * f.Offset, 8 * (f.Offset + n*f.element()), at}
	if f.Bits > 0 {
		s.from += f.Bit
		s.to = s.from + f.Bits
	}
	if s.to > 8*size {
		c.add(at, "ends at byte %d: outside the %d bytes of the struct", (s.to+7)/8, size)
		return s, false
	}
	return s, true
}

// shape checks a field's type, sizes and bits.
func (c *checker) shape(at []int, f *Field) {
	if !slices.Contains(types(), f.Type) {
		c.add(at, "type %s: want one of %v", strconv.QuoteToASCII(string(f.Type)), types())
		return
	}
	own := sizes[f.Type]
	switch {
	case own > 0 && f.Size != 0 && f.Size != own:
		c.add(at, "size %d: %s has %d", f.Size, f.Type, own)
	case own == 0 && (f.Size < 1 || f.Size > maxSize):
		c.add(at, "size %d: want at least 1", f.Size)
	case f.Type == Struct && len(f.Fields) == 0:
		c.add(at, "a struct without fields")
	case f.Type != Struct && f.Fields != nil:
		c.add(at, "%s has no fields", f.Type)
	case len(f.Count) > maxDims:
		c.add(at, "%d dimensions: want at most %d", len(f.Count), maxDims)
	case f.Bits == 0 && f.Bit == 0:
	case !f.Type.integer() && f.Type != Bool:
		c.add(at, "bits of %s: want an integer or bool", f.Type)
	case f.Count != nil:
		c.add(at, "an array of bit fields: there is none in C")
	case f.Bits < 1 || f.Bits > max(8*own, 1) || f.Bit < 0 || f.Bit > 63:
		c.add(at, "bits %d from bit %d: want 1 to %d bits, from bit 0 to 63", f.Bits, f.Bit, 8*own)
	}
}

// labels checks the texts displayed with a value.
func (c *checker) labels(at []int, f *Field) {
	c.label(at, "unit", f.Unit)
	number := f.Type.integer() || f.Type == Float || f.Type == Double
	switch {
	case f.Scale != 0 && (math.IsNaN(f.Scale) || math.IsInf(f.Scale, 0)):
		c.add(at, "scale: want a number")
	case f.Scale != 0 && (!number || f.Words != nil):
		c.add(at, "scale: want a number of type %s without words", f.Type)
	case f.Words != nil && !f.Type.integer():
		c.add(at, "words: want an integer, not %s", f.Type)
	}
	values := map[int64]bool{}
	for _, w := range f.Words {
		c.words++
		c.name(at, "word", w.Name)
		if values[w.Value] {
			c.add(at, "the value %d has two words", w.Value)
		}
		values[w.Value] = true
	}
}
