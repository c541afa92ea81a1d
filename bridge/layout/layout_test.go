package layout

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func nested(depth int) []Field {
	if depth == 0 {
		return []Field{{Name: "x", Type: Uint8}}
	}
	return []Field{{Name: "s", Type: Struct, Size: 1, Fields: nested(depth - 1)}}
}

func many(n int) (fields []Field) {
	for i := range n {
		fields = append(fields, Field{Name: "f" + strings.Repeat("x", i/1000) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)), Offset: i, Type: Uint8})
	}
	return fields
}

// bitsBehindTail returns a layout for which a former decoder read eight bytes of four-byte frames.
func bitsBehindTail() Layout {
	return Layout{Name: "t", Size: 8, Tail: "x", Counter: "n", Fields: []Field{{Name: "n", Type: Uint64, Bit: 56, Bits: 8}, {Name: "x", Type: Uint8, Offset: 4}}}
}

// kinds returns a layout with a variant for each of the values of header.kind. A frame has a header of 2 bytes, and then as many
// bytes as the value, at least one.
func kinds(values ...int64) Layout {
	all := Layout{Name: "t", By: "header.kind"}
	for _, v := range values {
		n := max(1, int(v))
		all.Variants = append(all.Variants, Variant{v, Layout{Name: "t" + strconv.FormatInt(v, 10), Size: 2 + n, Fields: []Field{
			{Name: "header", Type: Struct, Size: 2, Fields: []Field{{Name: "n", Type: Uint8}, {Name: "kind", Type: Int8, Offset: 1, Words: []Word{{v, "WORD"}}}}},
			{Name: "x", Type: Uint8, Offset: 2, Count: []int{n}},
		}}})
	}
	return all
}

func TestHostileLayoutsAreRefused(t *testing.T) {
	one := func(f Field) Layout { f.Name = "x"; return Layout{Name: "t", Size: 16, Fields: []Field{f}} }
	two := func(a, b Field) Layout {
		a.Name, b.Name = "a", "b"
		return Layout{Name: "t", Size: 16, Fields: []Field{a, b}}
	}
	named := func(name string) Layout { return Layout{Name: name, Size: 1, Fields: many(1)} }
	field := func(name string) Layout {
		return Layout{Name: "t", Size: 1, Fields: []Field{{Name: name, Type: Uint8}}}
	}
	tail := func(counter string, fields ...Field) Layout {
		return Layout{Name: "t", Size: 16, Fields: fields, Tail: "x", Counter: counter}
	}
	for _, c := range []struct {
		want string
		l    Layout
	}{
		{"name is missing", named("")},
		{"longer than 63", named(strings.Repeat("x", 64))},
		{`has the character '\x1b'`, named("a\x1b[31m")},
		{`has the character '\n'`, named("a\nb")},
		{`has the character '<'`, named("<script>")},
		{`has the character '>'`, named("a>")},
		{`has the character '&'`, named("a&amp;")},
		{`has the character '"'`, named(`a"`)},
		{`has the character '\''`, named("a'")},
		{"has the character '`'", named("a`")},
		{`has the character '\u202e'`, named("a\u202eb")},
		{`has the character '\x7f'`, named("a\x7f")},
		{`has the character '\ufffd'`, named("a\xff")},
		{". and [] stand between", field("a.b")},
		{". and [] stand between", field("a[0]")},
		{"name is missing", field("")},
		{"size 0", Layout{Name: "t", Fields: many(1)}},
		{"size -1", Layout{Name: "t", Size: -1, Fields: many(1)}},
		{"size 1073741825", Layout{Name: "t", Size: 1<<30 + 1, Fields: many(1)}},
		{"no fields", Layout{Name: "t", Size: 1}},
		{"fields: want at most 4096", Layout{Name: "t", Size: 5000, Fields: many(4097)}},
		{"more than 16 structs", Layout{Name: "t", Size: 1, Fields: nested(16)}},
		{"type \"int7\"", one(Field{Type: "int7"})},
		{"type \"\"", one(Field{})},
		{"size 4: int8 has 1", one(Field{Type: Int8, Size: 4})},
		{"size 0: want at least 1", one(Field{Type: Bytes})},
		{"size -4: want at least 1", one(Field{Type: Bytes, Size: -4})},
		{"size 9223372036854775807", one(Field{Type: Bytes, Size: math.MaxInt})},
		{"a struct without fields", one(Field{Type: Struct, Size: 4})},
		{"int8 has no fields", one(Field{Type: Int8, Fields: many(1)})},
		{"outside the 16 bytes", one(Field{Type: Int8, Offset: 16})},
		{"outside the 16 bytes", one(Field{Type: Int8, Offset: -1})},
		{"outside the 16 bytes", one(Field{Type: Int8, Offset: math.MaxInt})},
		{"outside the 16 bytes", one(Field{Type: Int8, Offset: math.MinInt})},
		{"outside the 16 bytes", one(Field{Type: Int64, Offset: 9})},
		{"outside the 16 bytes", one(Field{Type: Int32, Count: []int{5}})},
		{"larger than any frame", one(Field{Type: Int32, Count: []int{0}})},
		{"larger than any frame", one(Field{Type: Int32, Count: []int{-1}})},
		{"larger than any frame", one(Field{Type: Int32, Count: []int{1 << 32, 1 << 32}})},
		{"larger than any frame", one(Field{Type: Int64, Count: []int{1 << 61}})},
		{"larger than any frame", one(Field{Type: Bytes, Size: 1 << 30, Count: []int{1 << 30, 1 << 30, 16}})},
		{"9 dimensions", one(Field{Type: Int8, Count: []int{1, 1, 1, 1, 1, 1, 1, 1, 1}})},
		{"outside the 8 bytes", one(Field{Type: Struct, Size: 8, Fields: []Field{{Name: "y", Type: Int8, Offset: 8}}})},
		{"bits of float", one(Field{Type: Float, Bits: 3})},
		{"an array of bit fields", one(Field{Type: Uint8, Bits: 3, Count: []int{2}})},
		{"bits 9 from bit 0", one(Field{Type: Uint8, Bits: 9})},
		{"bits -1", one(Field{Type: Uint8, Bits: -1})},
		{"bits 0 from bit 3", one(Field{Type: Uint8, Bit: 3})},
		{"from bit 64", one(Field{Type: Uint64, Bits: 1, Bit: 64})},
		{"from bit -1", one(Field{Type: Uint64, Bits: 1, Bit: -1})},
		{"outside the 16 bytes", one(Field{Type: Uint64, Bits: 64, Bit: 1, Offset: 8})},
		{"duplicate name", Layout{Name: "t", Size: 2, Fields: []Field{{Name: "a", Type: Int8}, {Name: "a", Type: Int8, Offset: 1}}}},
		{"overlaps a", two(Field{Type: Int32}, Field{Type: Int8, Offset: 3})},
		{"overlaps b", two(Field{Type: Int8, Offset: 3}, Field{Type: Int32})},
		{"overlaps a", two(Field{Type: Uint8, Bits: 3}, Field{Type: Uint8, Bits: 3, Bit: 2})},
		{"overlaps a", two(Field{Type: Int8, Count: []int{8}}, Field{Type: Int8, Offset: 7})},
		{"unit", one(Field{Type: Int8, Unit: "m/s\x1b[2J"})},
		{"unit", one(Field{Type: Int8, Unit: strings.Repeat("m", 64)})},
		{"scale", one(Field{Type: Int8, Scale: math.NaN()})},
		{"scale", one(Field{Type: Int8, Scale: math.Inf(-1)})},
		{"scale", one(Field{Type: Char, Scale: 2})},
		{"scale", one(Field{Type: Int8, Scale: 2, Words: []Word{{1, "A"}}})},
		{"words: want an integer", one(Field{Type: Double, Words: []Word{{1, "A"}}})},
		{"two words", one(Field{Type: Int8, Words: []Word{{1, "A"}, {1, "B"}}})},
		{"word is missing", one(Field{Type: Int8, Words: []Word{{1, ""}}})},
		{"word", one(Field{Type: Int8, Words: []Word{{1, "A\r\n"}}})},
		{"words of enumerations: want at most", one(Field{Type: Int64, Words: slices.Collect(func(yield func(Word) bool) {
			for i := range 4097 {
				if !yield(Word{int64(i), "A"}) {
					return
				}
			}
		})})},
		{"count without tail", Layout{Name: "t", Size: 1, Fields: many(1), Counter: "n"}},
		{"want the name of the last field", tail("", Field{Name: "y", Type: Int8})},
		{"fields: want at most 4096", Layout{Name: "t", Variants: []Variant{{0, Layout{Name: "t", Size: 5000, Fields: many(3000)}}, {0, Layout{Name: "t", Size: 5000, Fields: many(3000)}}}}},
		{"behind the tail", tail("", Field{Name: "n", Type: Int8, Offset: 8}, Field{Name: "x", Type: Int8})},
		{"reach into the tail", tail("", Field{Name: "n", Type: Uint64, Bit: 56, Bits: 8}, Field{Name: "x", Type: Int8, Offset: 4})},
		{"reach into the tail", tail("n", Field{Name: "n", Type: Uint8, Bit: 6, Bits: 3}, Field{Name: "x", Type: Int8, Offset: 1})},
		{"want the name of an integer", tail("n", Field{Name: "x", Type: Int8})},
		{"want the name of an integer", tail("n", Field{Name: "n", Type: Float}, Field{Name: "x", Type: Int8, Offset: 8})},
		{"want the name of an integer", tail("n", Field{Name: "n", Type: Int8, Count: []int{2}}, Field{Name: "x", Type: Int8, Offset: 8})},
		{"cannot have a scale", tail("n", Field{Name: "n", Type: Int8, Scale: 2}, Field{Name: "x", Type: Int8, Offset: 8})},
		{"want the name of an integer in t", tail("h.m", Field{Name: "h", Type: Struct, Size: 4, Fields: []Field{{Name: "n", Type: Int32}}}, Field{Name: "x", Type: Int8, Offset: 4})},
		{"want the name of an integer in t", tail("h.n", Field{Name: "h", Type: Struct, Size: 4, Count: []int{2}, Fields: []Field{{Name: "n", Type: Int32}}}, Field{Name: "x", Type: Int8, Offset: 8})},
		{"want the name of an integer in t", tail("h", Field{Name: "h", Type: Struct, Size: 4, Fields: []Field{{Name: "n", Type: Int32}}}, Field{Name: "x", Type: Int8, Offset: 4})},
		{"want the name of an integer in t", tail("x", Field{Name: "x", Type: Int8})},
		{"want the name of an integer in t", tail("n*", Field{Name: "n", Type: Int8}, Field{Name: "x", Type: Int8, Offset: 1})},
		{"at most 8 dimensions", tail("n*n*n*n*n*n*n*n", Field{Name: "n", Type: Int8}, Field{Name: "x", Type: Int8, Count: []int{2}, Offset: 1})},
		{"by without layouts", Layout{Name: "t", Size: 1, Fields: many(1), By: "faaa"}},
		{"layouts replaces size", Layout{Name: "t", Size: 1, Variants: kinds(1, 2).Variants}},
		{"65 layouts: want at most 64", kinds(make([]int64, 65)...)},
		{"duplicate value 2", kinds(2, 3, 2)},
		{"value without by", Layout{Name: "t", Variants: kinds(1, 2).Variants}},
		{"must be a struct, not", Layout{Name: "t", Variants: []Variant{{Layout: kinds(1)}}}},
		{"by \"n\": want the name", Layout{Name: "t", By: "n", Variants: kinds(1, 2).Variants}},
		{"t1 has the same size, 3: want by", Layout{Name: "t", Variants: []Variant{{Layout: kinds(1).Variants[0].Layout}, {Layout: kinds(1).Variants[0].Layout}}}},
		{"another offset or type than in t", Layout{Name: "t", By: "n", Variants: []Variant{{0, field("n")}, {1, Layout{Name: "t", Size: 2, Fields: []Field{{Name: "n", Type: Uint8, Offset: 1}}}}}}},
		{"a tail of bit fields", tail("", Field{Name: "x", Type: Int8, Bits: 2})},
	} {
		found := c.l.Check()
		if !slices.ContainsFunc(found, func(p Problem) bool { return strings.Contains(p.Text, c.want) }) {
			t.Errorf("%s: got %v, want a problem with %q", c.l.Name, found, c.want)
		}
	}
}

func TestLayoutsAtTheLimitsAreAccepted(t *testing.T) {
	for _, l := range []Layout{
		{Name: "t", Size: 4096, Fields: many(4096)},
		{Name: "t", Size: 1, Fields: nested(15)},
		{Name: "t", Size: 1 << 30, Fields: []Field{{Name: "x", Type: Int8, Count: []int{1 << 30}}}},
		kinds(slices.Collect(func(yield func(int64) bool) {
			for i := range int64(64) {
				if !yield(i) {
					return
				}
			}
		})...),
		{Name: "t", Size: 8, Tail: "x", Counter: "n", Fields: []Field{{Name: "n", Type: Uint64, Bit: 24, Bits: 8}, {Name: "x", Type: Uint8, Offset: 4}}},
		{Name: strings.Repeat("x", 63), Size: 1, Fields: []Field{{Name: "Vec(double,3)", Type: Uint8, Bits: 4}, {Name: "b", Type: Uint8, Bits: 4, Bit: 4}}},
	} {
		if found := l.Check(); len(found) > 0 {
			t.Errorf("%s: got %v, want no problem", l.Name, found)
		}
	}
}

// shown returns a value as text.
func shown(v Value) string {
	var list []string
	if n, ok := v.Len(); ok {
		for i := range n {
			list = append(list, shown(v.At(i)))
		}
		return "[" + strings.Join(list, " ") + "]"
	}
	if v.Field().Type == Struct {
		for i := range v.Field().Fields {
			if m := v.Member(i); !m.IsAbsent() {
				list = append(list, m.Field().Name+":"+shown(m))
			}
		}
		return "{" + strings.Join(list, " ") + "}"
	}
	return v.Text()
}

func TestDecodedValuesMatchBytes(t *testing.T) {
	frame := make([]byte, 32)
	for i := range frame {
		frame[i] = byte(0xf0 + i)
	}
	binary.LittleEndian.PutUint32(frame[8:], math.Float32bits(0.1))
	binary.LittleEndian.PutUint64(frame[16:], math.Float64bits(-2.5e-300))
	copy(frame[24:], "krang\x00xy")
	for _, c := range []struct {
		f    Field
		want string
	}{
		{Field{Type: Int8}, "-16"}, {Field{Type: Uint8}, "240"},
		{Field{Type: Int16}, "-3600"}, {Field{Type: Uint16}, "61936"},
		{Field{Type: Int32}, "-202182160"}, {Field{Type: Uint32}, "4092785136"},
		{Field{Type: Int64}, "-579005069656919568"}, {Field{Type: Uint64}, "17867739004052632048"},
		{Field{Type: Uint16, Scale: 0.5}, "30968"},
		{Field{Type: Float, Offset: 8}, "0.1"}, {Field{Type: Double, Offset: 16}, "-2.5e-300"},
		{Field{Type: Char, Offset: 24, Count: []int{8}}, "krang"},
		{Field{Type: Char, Offset: 24, Count: []int{3}}, "kra"},
		{Field{Type: Char, Offset: 24, Count: []int{2, 3}}, "[kra ng]"},
		{Field{Type: Char, Offset: 24}, "k"},
		{Field{Type: Uint8, Count: []int{2, 2}}, "[[240 241] [242 243]]"},
		{Field{Type: Bytes, Size: 3}, "f0f1f2"}, {Field{Type: Pointer}, "0xf7f6f5f4f3f2f1f0"},
		{Field{Type: Bool}, "240"}, {Field{Type: Bool, Bits: 1, Bit: 4}, "true"}, {Field{Type: Bool, Bits: 1}, "false"},
		{Field{Type: Int32, Bits: 3, Bit: 3}, "-2"}, {Field{Type: Uint32, Bits: 3, Bit: 3}, "6"},
		{Field{Type: Uint32, Bits: 12, Bit: 4}, "3871"}, {Field{Type: Uint64, Bits: 64, Bit: 4}, "16104713247642300191"},
		{Field{Type: Int64, Bits: 60, Bit: 7}, "-292753853258406429"},
		{Field{Type: Int8, Words: []Word{{-16, "BACK"}}}, "BACK"}, {Field{Type: Int8, Words: []Word{{1, "GO"}}}, "-16"},
		{Field{Type: Struct, Size: 2, Count: []int{2}, Fields: []Field{{Name: "a", Type: Uint8}, {Name: "b", Type: Int8, Offset: 1}}}, "[{a:240 b:-15} {a:242 b:-13}]"},
	} {
		c.f.Name = "x"
		l := Layout{Name: "t", Size: 32, Fields: []Field{c.f}}
		if found := l.Check(); len(found) > 0 {
			t.Errorf("%v: got %v, want no problem", c.f, found)
			continue
		}
		v, err := l.Decode(frame)
		if err != nil {
			t.Fatal(err)
		}
		if got := shown(v.Member(0)); got != c.want {
			t.Errorf("%v: got %s, want %s", c.f, got, c.want)
		}
	}
}

func TestFrameOfWrongSizeIsNotDecoded(t *testing.T) {
	fixed := Layout{Name: "t", Size: 4, Fields: many(4)}
	rest := Layout{Name: "t", Size: 8, Fields: []Field{{Name: "n", Type: Int16}, {Name: "x", Type: Uint16, Offset: 4}}, Tail: "x"}
	counted := rest
	counted.Counter = "n"
	log := Layout{Name: "t", Size: 8, Tail: "x", Counter: "h.n", Fields: []Field{{Name: "h", Type: Struct, Size: 4, Fields: []Field{{Name: "n", Type: Uint8, Offset: 1}}}, {Name: "x", Type: Char, Offset: 4}}}
	matrix := Layout{Name: "t", Size: 3, Tail: "x", Counter: "rows*cols", Fields: []Field{{Name: "rows", Type: Uint8}, {Name: "cols", Type: Uint8, Offset: 1}, {Name: "x", Type: Uint8, Offset: 2}}}
	bySize := Layout{Name: "t", Variants: []Variant{{Layout: kinds(1).Variants[0].Layout}, {Layout: kinds(3).Variants[0].Layout}}}
	for _, c := range []struct {
		l     Layout
		frame string
		want  string // "" means that the frame does not fit the layout
	}{
		{fixed, "\x01\x02\x03\x04", "{faaa:1 fbaa:2 fcaa:3 fdaa:4}"},
		{fixed, "\x01\x02\x03", ""}, {fixed, "\x01\x02\x03\x04\x05", ""}, {fixed, "", ""},
		{rest, "\x01\x00\x00\x00", "{n:1 x:[]}"},
		{rest, "\x01\x00\x00\x00\x05\x00\x06\x00", "{n:1 x:[5 6]}"},
		{rest, "\x01\x00\x00\x00\x05", ""}, {rest, "\x01\x00\x00", ""}, {rest, "", ""},
		{counted, "\x01\x00\x00\x00\x05\x00", "{n:1 x:[5]}"},
		{counted, "\x01\x00\x00\x00\x05\x00\x06\x00", "{n:1 x:[5]}"}, // the struct's own size
		{counted, "\x02\x00\x00\x00\x05\x00", ""}, {counted, "\xff\xff\x00\x00\x05\x00", ""}, {counted, "", ""},
		{counted, "\xff\xff\x00\x00", ""},
		{log, "\x00\x02\x00\x00ab\x00\x00", "{h:{n:2} x:ab}"}, {log, "\x00\x02\x00\x00ab\x00\x00\x00\x00", "{h:{n:2} x:ab}"}, {log, "\x00\x02\x00\x00ab\x00\x00\x00\x00\x00", ""},
		{matrix, "\x02\x03abcdef", "{rows:2 cols:3 x:[[97 98 99] [100 101 102]]}"}, {matrix, "\x02\x04abcdef", ""}, {matrix, "\x00\x80", "{rows:0 cols:128 x:[]}"}, {matrix, "\x80\x00", "{rows:128 cols:0 x:[]}"}, {matrix, "\xff\xff" + strings.Repeat("a", 255), ""},
		{kinds(1, 3), "\x00\x01a", "{header:{n:0 kind:WORD} x:[97]}"}, {kinds(1, 3), "\x00\x03abc", "{header:{n:0 kind:WORD} x:[97 98 99]}"}, {kinds(1, 3), "\x00\x03a", ""}, {kinds(1, 3), "\x00\x02ab", ""}, {kinds(1, 3), "\x00", ""}, {kinds(1, 3), "", ""},
		{bySize, "\x00\x01abc", "{header:{n:0 kind:1} x:[97 98 99]}"}, {bySize, "\x00\x03ab", ""},
		{counted, "\x01\x00\x00\x00" + strings.Repeat("\x05\x00", 8), ""},
	} {
		if found := c.l.Check(); len(found) > 0 {
			t.Fatal(found)
		}
		v, err := c.l.Decode([]byte(c.frame))
		if got := err == nil; got != (c.want != "") || got && shown(v) != c.want {
			t.Errorf("%v, %q: got %v, want %q", c.l.Counter, c.frame, err, c.want)
			if err == nil {
				t.Error(shown(v))
			}
		}
	}
}

// FuzzLayout decodes frames of any size with layouts that pass Check. The decoder must not read outside a frame.
func FuzzLayout(f *testing.F) {
	for _, l := range []Layout{
		{Name: "t", Size: 4, Fields: many(4)},
		{Name: "t", Size: 8, Fields: []Field{{Name: "n", Type: Int16}, {Name: "x", Type: Struct, Size: 2, Fields: many(2), Offset: 4}}, Tail: "x", Counter: "n"},
		bitsBehindTail(), kinds(1, 2), {Name: "t", Variants: []Variant{{Layout: bitsBehindTail()}}},
		{Name: "t", Size: 2, Tail: "x", Counter: "n*n", Fields: []Field{{Name: "n", Type: Int8}, {Name: "x", Type: Char, Offset: 1, Count: []int{3}}}},
		{Name: "t", Size: 9, Fields: []Field{{Name: "b", Type: Int64, Bit: 5, Bits: 64}}},
		{Name: "t", Size: 24, Fields: []Field{{Name: "c", Type: Char, Count: []int{2, 4}}, {Name: "p", Type: Pointer, Offset: 8}, {Name: "z", Type: Bytes, Size: 4, Offset: 16}}},
	} {
		text, err := json.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte("\x01\x00\x02\x00\x03\x00"))
	}
	f.Fuzz(func(t *testing.T, text, frame []byte) {
		var l Layout
		if json.Unmarshal(text, &l) != nil || len(l.Check()) > 0 || l.Size > 1<<16 {
			return
		}
		for _, frame := range [][]byte{frame, append(frame, make([]byte, l.Size)...)[:l.Size]} {
			if v, err := l.Decode(slices.Clip(frame)); err == nil {
				shown(v)
			}
		}
	})
}

// A value that JSON cannot represent as a number is not a number. An integer with a very large scale is such a value.
func TestValueBeyondJSONRangeIsNoNumber(t *testing.T) {
	l := &Layout{Name: "t", Size: 2, Fields: []Field{{Name: "small", Type: Uint8, Scale: math.MaxFloat64}, {Name: "large", Type: Uint8, Offset: 1, Scale: math.MaxFloat64}}}
	v, err := l.Decode([]byte{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	if small, large := v.Member(0), v.Member(1); !small.IsNumber() || large.IsNumber() {
		t.Errorf("%s is a number: %v, %s is one: %v", small.Text(), small.IsNumber(), large.Text(), large.IsNumber())
	}
}
