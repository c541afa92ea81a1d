package config

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/ui"
)

var (
	layoutKeys = []string{"name", "size", "tail", "count", "fields", "by", "layouts", "descriptors"}
	fieldKeys  = []string{"name", "offset", "type", "size", "count", "bits", "bit", "words", "unit", "scale", "union", "fields"}
)

// layoutParser reads one file with a layout, as strictly as the configuration.
type layoutParser struct {
	configParser
	places map[string]origin // where fields are defined, by path
}

// ReadLayout makes a checked layout from the text of its file. path is used only for positions
// in errors.
func ReadLayout(path string, text []byte) (*layout.Layout, error) {
	p := &layoutParser{configParser{path: path}, map[string]origin{}}
	l := p.read(text)
	if len(p.Problems) == 0 {
		for _, wrong := range l.Check() {
			p.add(p.places[fmt.Sprint(wrong.Path)], "%s", wrong.Text)
		}
	}
	if err := p.err(); err != nil {
		return nil, ui.Usage(err, "")
	}
	return l, nil
}

func (p *layoutParser) read(text []byte) *layout.Layout {
	l, top := &layout.Layout{}, origin{Source: p.path}
	if len(text) > layout.MaxText {
		p.add(top, "larger than %d KiB: is it a layout?", layout.MaxText>>10)
		return l
	}
	file, err := p.yaml(text)
	if err != nil {
		p.syntax(err)
		return l
	}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil || d.Body.Type() == ast.CommentType })
	if len(docs) != 1 {
		p.add(top, "want one layout, with the keys %s", ui.AndList(layoutKeys))
		return l
	}
	p.layout(l, docs[0].Body, top, nil)
	return l
}

// layout reads the keys of a layout into l. path has the index of l if it is a variant, and is nil for the layout of the file.
func (p *layoutParser) layout(l *layout.Layout, n ast.Node, under origin, path []int) {
	p.places[fmt.Sprint(path)] = under
	for _, in := range p.mapping(n, under, "the keys of a layout, as in name: imu") {
		switch {
		case in.key == "name":
			l.Name = p.text(in)
		case in.key == "size":
			l.Size = p.number(in)
		case in.key == "tail":
			l.Tail = p.text(in)
		case in.key == "count":
			if l.Counter = p.text(in); l.Counter == "rest" {
				l.Counter = ""
			}
		case in.key == "fields":
			l.Fields = p.fields(in, path)
		case in.key == "by" && path == nil:
			l.By = p.text(in)
		case in.key == "layouts" && path == nil:
			l.Variants = p.variants(in)
		case in.key == "descriptors" && path == nil:
			l.Descriptors = p.base64(in)
		case in.key == "value" && path != nil: // variants reads it
		default:
			p.add(in.at, "%s", unknown(in.key, layoutKeys))
		}
	}
}

func (p *layoutParser) variants(in pair) (list []layout.Variant) {
	items, _ := p.items(in.value, in.at, "{value: 1, name: imu, size: 8, fields: [...]}")
	for i, item := range items {
		under := in.at.index(i)
		var v layout.Variant
		p.layout(&v.Layout, item, under.or(p.place(item)), []int{i})
		if value, ok := p.valueOf(item, under); ok {
			v.Value = value
		}
		list = append(list, v)
	}
	return list
}

// valueOf returns the integer of the key "value" in a variant. It returns false without such a
// key, and if its value is not an integer, which it records as a problem.
func (p *layoutParser) valueOf(n ast.Node, under origin) (int64, bool) {
	m, isMap := n.(*ast.MappingNode)
	if !isMap {
		return 0, false // layout has recorded this problem
	}
	for _, one := range m.Values {
		if one.Key.GetToken().Value != "value" {
			continue
		}
		v, ok := p.scalar(one.Value, under.at("value"), "1")
		number, err := strconv.ParseInt(v.text, 0, 64)
		if ok && err != nil {
			p.add(v.at, "%q: want an integer", v.text)
		}
		return number, ok && err == nil
	}
	return 0, false
}

// maxNested limits how deep fields are read; a layout allows less.
const maxNested = 32

func (p *layoutParser) fields(in pair, path []int) (fields []layout.Field) {
	items, _ := p.items(in.value, in.at, "{name: gyro, offset: 0, type: double}")
	if len(path) > maxNested {
		p.add(in.at, "more than %d structs in one another", maxNested)
		return nil
	}
	for i, item := range items {
		at := append(slices.Clone(path), i)
		fields = append(fields, p.field(item, in.at.index(i), at))
	}
	return fields
}

func (p *layoutParser) field(n ast.Node, under origin, path []int) (f layout.Field) {
	p.places[fmt.Sprint(path)] = under.or(p.place(n))
	given := map[string]bool{}
	for _, in := range p.mapping(n, under, "a field, as in {name: gyro, offset: 0, type: double}") {
		given[in.key] = true
		switch in.key {
		case "name":
			f.Name = p.text(in)
		case "offset":
			f.Offset = p.number(in)
		case "type":
			f.Type = layout.Type(p.text(in))
		case "size":
			f.Size = p.number(in)
		case "count":
			f.Count = p.count(in)
		case "bits":
			f.Bits = p.number(in)
		case "bit":
			f.Bit = p.number(in)
		case "words":
			f.Words = p.words(in)
		case "unit":
			f.Unit = p.text(in)
		case "scale":
			f.Scale = p.scale(in)
		case "union":
			f.Union = p.text(in) == "true"
		case "fields":
			f.Fields = p.fields(in, path)
		default:
			p.add(in.at, "%s", unknown(in.key, fieldKeys))
		}
	}
	for _, key := range []string{"name", "offset", "type"} {
		if !given[key] && len(given) > 0 {
			p.add(p.places[fmt.Sprint(path)], "%s is missing", key)
		}
	}
	return f
}

// base64 decodes the value of a key, which is in Base64 (RFC 4648).
func (p *layoutParser) base64(in pair) []byte {
	v, ok := p.scalar(in.value, in.at, "Base64, as achbridge type import writes it")
	bytes, err := base64.StdEncoding.DecodeString(v.text)
	if ok && (err != nil || len(bytes) == 0) {
		p.add(v.at, "want descriptors in Base64, as achbridge type import writes them")
	}
	return bytes
}

func (p *layoutParser) text(in pair) string {
	v, _ := p.scalar(in.value, in.at, "imu")
	return v.text
}

// number is a whole number that is not negative.
func (p *layoutParser) number(in pair) int {
	v, ok := p.scalar(in.value, in.at, "8")
	return p.numberOf(v, ok)
}

func (p *layoutParser) numberOf(v value, ok bool) int {
	n, err := strconv.Atoi(v.text)
	if ok && (err != nil || n < 0) {
		p.add(v.at, "%q: want a whole number", v.text)
	}
	return n
}

// count are the dimensions of an array: one number, or a list of them.
func (p *layoutParser) count(in pair) (count []int) {
	if _, several := in.value.(*ast.SequenceNode); !several {
		return []int{p.number(in)}
	}
	values, ok := p.list(in.value, in.at, "3")
	for _, v := range values {
		count = append(count, p.numberOf(v, ok))
	}
	return count
}

// words are the names of an enumeration, as in IDLE=0.
func (p *layoutParser) words(in pair) (words []layout.Word) {
	values, ok := p.list(in.value, in.at, "IDLE=0")
	for _, v := range values {
		i := strings.LastIndexByte(v.text, '=')
		n, err := strconv.ParseInt(v.text[i+1:], 10, 64)
		if ok && (i < 1 || err != nil) {
			p.add(v.at, "%q: want WORD=NUMBER, as in IDLE=0", v.text)
			continue
		}
		words = append(words, layout.Word{Value: n, Name: v.text[:max(i, 0)]})
	}
	return words
}

func (p *layoutParser) scale(in pair) float64 {
	v, ok := p.scalar(in.value, in.at, "0.001")
	x, err := strconv.ParseFloat(v.text, 64)
	if ok && (err != nil || x == 0 || math.IsInf(x, 0) || math.IsNaN(x)) {
		p.add(v.at, "%q: want a number other than 0", v.text)
	}
	return x
}
