// Package ros1msg writes layouts as message definitions of ROS 1, which Foxglove and ROS read.
//
//	s, err := ros1msg.Of(l) // err: ROS 1 cannot express the layout
//	fmt.Println(s.Name)     // achbridge/imu
//	fmt.Println(s.Text)     // uint64 stamp …
//
// A message of ROS 1 is its fields in order, in little-endian; an array of fixed size has no
// length. A C struct is such a message if its padding has fields, so frames need no change: a
// program with the definition reads them as they are in the ring.
package ros1msg

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"achbridge/bridge/layout"
)

// Schema is the definition of one type.
type Schema struct {
	Name    string // name with package
	Text    string // the type, then the types of its fields
	Renamed []Renamed
	Parts   []Part // fields of the type, in the order of Text
}

// Part is one field of a message: Count numbers, or Count structs, one after another.
type Part struct {
	Offset int    // in the struct, bytes
	Size   int    // size of one element, bytes
	Count  int    // number of elements; 1 for a single value
	Parts  []Part // fields of an element if it is a struct, else nil
}

// Renamed is a field with another name in the definition.
type Renamed struct {
	Field string `json:"field"`
	As    string `json:"as"`
}

// pkg is the package of all types.
const pkg = "achbridge/"

// separator separates the definitions of types.
var separator = strings.Repeat("=", 80) + "\n"

// Of returns the definition of a layout, which must have passed Check. It returns an error if ROS 1 cannot express it.
func Of(l *layout.Layout) (*Schema, error) {
	if l.Variants != nil {
		return nil, errors.New("its frames have several layouts, but a topic of ROS 1 has one")
	}
	if l.Tail != "" {
		return nil, fmt.Errorf("its frames have changing length, by %s, and ROS 1 writes a length where C has none", l.Tail)
	}
	m := maker{types: map[string]bool{}}
	name := m.typeName(l.Name)
	parts := m.message(name, "", l.Fields, l.Size)
	return &Schema{pkg + name, strings.Join(m.texts, separator), m.renamed, parts}, nil
}

// maker collects the definitions of a type.
type maker struct {
	types   map[string]bool
	texts   []string
	renamed []Renamed
}

// member is one field of a message: a field of C, or the bytes that several bit fields share.
type member struct {
	from, to int // byte offsets in the struct
	fields   []layout.Field
}

// message adds the definitions of a struct and of the structs in it, and returns its parts. path is the prefix of the
// names of its fields.
func (m *maker) message(name, path string, fields []layout.Field, size int) (parts []Part) {
	own := len(m.texts)
	var b strings.Builder
	if own > 0 {
		fmt.Fprintf(&b, "MSG: %s%s\n", pkg, name)
	}
	m.texts = append(m.texts, "")
	names, at := newNames(fields), 0
	for _, part := range members(fields) {
		parts = append(parts, padding(&b, names, at, part.from)...)
		at = part.to
		f := &part.fields[0]
		if f.Bits > 0 {
			m.bits(&b, names, path, part)
			parts = append(parts, bytesPart(part.from, part.to))
			continue
		}
		called := names.of(f.Name)
		if called != f.Name {
			m.renamed = append(m.renamed, Renamed{path + f.Name, called})
		}
		constants(&b, names, f, called)
		kind, one := m.kind(name, path, f, part)
		parts = append(parts, one)
		fmt.Fprintf(&b, "%s %s%s\n", kind, called, comment(f))
	}
	parts = append(parts, padding(&b, names, at, size)...)
	m.texts[own] = b.String()
	return parts
}

// bytesPart returns the part for the bytes from one offset to another.
func bytesPart(from, to int) Part { return Part{Offset: from, Size: 1, Count: to - from} }

// members returns the fields of a struct in the order of their bytes.
func members(fields []layout.Field) (list []member) {
	sorted := slices.Clone(fields)
	slices.SortStableFunc(sorted, func(a, b layout.Field) int { return cmp.Compare(8*a.Offset+a.Bit, 8*b.Offset+b.Bit) })
	for _, f := range sorted {
		part := member{f.Offset, f.Offset + elements(&f)*cmp.Or(f.Type.OwnSize(), f.Size), []layout.Field{f}}
		if f.Bits > 0 {
			part.from, part.to = f.Offset+f.Bit/8, f.Offset+(f.Bit+f.Bits+7)/8
		}
		if n := len(list); n > 0 && f.Bits > 0 && list[n-1].fields[0].Bits > 0 && part.from <= list[n-1].to {
			list[n-1].to = max(list[n-1].to, part.to)
			list[n-1].fields = append(list[n-1].fields, f)
			continue
		}
		list = append(list, part)
	}
	return list
}

func elements(f *layout.Field) int {
	n := 1
	for _, c := range f.Count {
		n *= c
	}
	return n
}

func padding(b *strings.Builder, names names, from, to int) []Part {
	if to <= from {
		return nil
	}
	fmt.Fprintf(b, "uint8[%d] %s\n", to-from, names.free(fmt.Sprintf("padding_%d", from)))
	return []Part{bytesPart(from, to)}
}

// bits writes the bytes of bit fields.
func (m *maker) bits(b *strings.Builder, names names, path string, part member) {
	called := names.free(fmt.Sprintf("bits_%d", part.from))
	var about []string
	for _, f := range part.fields {
		m.renamed = append(m.renamed, Renamed{path + f.Name, called})
		about = append(about, fmt.Sprintf("%s %d", f.Name, f.Bits))
	}
	fmt.Fprintf(b, "uint8[%d] %s  # bits: %s\n", part.to-part.from, called, strings.Join(about, ", "))
}

// kinds maps types of C to types of ROS 1.
var kinds = map[layout.Type]string{
	layout.Int8: "int8", layout.Int16: "int16", layout.Int32: "int32", layout.Int64: "int64",
	layout.Uint8: "uint8", layout.Uint16: "uint16", layout.Uint32: "uint32", layout.Uint64: "uint64",
	layout.Float: "float32", layout.Double: "float64", layout.Bool: "bool", layout.Pointer: "uint64",
}

// kind returns the type of a field with its part, and defines the type if it is a struct. Types that ROS 1 cannot express
// become bytes.
func (m *maker) kind(name, path string, f *layout.Field, of member) (string, Part) {
	kind, part := kinds[f.Type], Part{Offset: of.from, Size: cmp.Or(f.Type.OwnSize(), f.Size), Count: elements(f)}
	switch {
	case f.Union, f.Type == layout.Bytes, f.Type == layout.Char:
		return fmt.Sprintf("uint8[%d]", of.to-of.from), bytesPart(of.from, of.to)
	case f.Type == layout.Struct:
		inner := m.typeName(name + "_" + f.Name)
		part.Parts = m.message(inner, path+f.Name+".", f.Fields, f.Size)
		kind = pkg + inner
	}
	if f.Count != nil {
		return fmt.Sprintf("%s[%d]", kind, part.Count), part
	}
	return kind, part
}

// constants writes the constants of an enumeration whose values fit the field's type.
func constants(b *strings.Builder, names names, f *layout.Field, called string) {
	if f.Union || f.Type == layout.Char {
		return
	}
	for _, w := range f.Words {
		if !fits(f.Type, w.Value) {
			continue
		}
		name := legal(w.Name)
		if names[name] {
			name = legal(called + "_" + w.Name)
		}
		fmt.Fprintf(b, "%s %s=%d\n", kinds[f.Type], names.free(name), w.Value)
	}
}

func fits(t layout.Type, value int64) bool {
	width := 8 * t.OwnSize()
	if strings.HasPrefix(string(t), "u") {
		return value >= 0 && (width == 64 || value < 1<<width)
	}
	return width == 64 || value >= math.MinInt64>>(64-width) && value <= math.MaxInt64>>(64-width)
}

// comment returns the properties of a field that its type of ROS 1 cannot express.
func comment(f *layout.Field) string {
	var about []string
	switch {
	case f.Union:
		about = append(about, "union")
	case f.Type == layout.Char:
		about = append(about, "text")
	case f.Type == layout.Pointer:
		about = append(about, "pointer")
	}
	if len(f.Count) > 1 {
		about = append(about, strings.Trim(strings.ReplaceAll(fmt.Sprint(f.Count), " ", " x "), "[]"))
	}
	if f.Scale != 0 {
		about = append(about, fmt.Sprintf("times %v", f.Scale))
	}
	if f.Unit != "" {
		about = append(about, f.Unit)
	}
	if about == nil {
		return ""
	}
	return "  # " + strings.Join(about, ", ")
}

// names holds the used names of a definition. A name that is valid in ROS 1 is kept.
type names map[string]bool

// methods lists the methods of a message in Python, which cannot be names of fields.
var methods = []string{"serialize", "deserialize", "serialize_numpy", "deserialize_numpy"}

func newNames(fields []layout.Field) names {
	n := names{}
	for _, f := range fields {
		if f.Bits == 0 && legal(f.Name) == f.Name {
			n[f.Name] = true
		}
	}
	for _, name := range methods {
		n[name] = true
	}
	return n
}

// of returns the name for a field.
func (n names) of(field string) string {
	if legal(field) == field && !slices.Contains(methods, field) {
		return field
	}
	return n.free(legal(field))
}

// free returns an unused name that is similar to wanted.
func (n names) free(wanted string) string {
	name := wanted
	for i := 2; n[name]; i++ {
		name = fmt.Sprintf("%s_%d", wanted, i)
	}
	n[name] = true
	return name
}

func (m *maker) typeName(name string) string { return names(m.types).free(legal(name)) }

var foreign = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// legal returns name with only letters, digits and _, beginning with a letter.
func legal(name string) string {
	name = foreign.ReplaceAllString(name, "_")
	if first := name[0] | 0x20; first < 'a' || first > 'z' {
		name = "x" + name
	}
	return name
}
