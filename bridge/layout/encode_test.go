package layout

import (
	"encoding/hex"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// arm returns a layout with every kind of field.
func arm() Layout {
	return Layout{Name: "robot::Arm(double, 3)", Size: 64, Tail: "path", Counter: "n", Fields: []Field{
		{Name: "n", Type: Int16},
		{Name: "mode", Offset: 2, Type: Int8, Words: []Word{{Value: -1, Name: "a=b"}, {Value: 0, Name: "IDLE"}}},
		{Name: "flag", Offset: 4, Type: Uint32, Bits: 3, Bit: 5, Unit: "# 100%"},
		{Name: "pos", Offset: 8, Type: Float, Count: []int{2, 1}, Scale: 0.001, Unit: "m/s^2"},
		{Name: "leg", Offset: 16, Type: Struct, Size: 8, Count: []int{2}, Union: true, Fields: []Field{{Name: "raw", Type: Bytes, Size: 3}}},
		{Name: "path", Offset: 64, Type: Double},
	}}
}

func TestEncodedLayoutRoundTrip(t *testing.T) {
	deepest := Layout{Name: "t", Size: 1, Fields: nested(15)}
	fields := deepest.Fields
	for fields[0].Fields != nil {
		fields[0].Count = []int{1, 1}
		fields = fields[0].Fields
	}
	fields[0].Words = []Word{{Value: math.MinInt64, Name: "A"}}
	for _, l := range []Layout{
		arm(), {Name: "t", Size: 4096, Fields: many(3000)}, deepest,
		kinds(-1, 0, 5), {Name: "t", Variants: []Variant{{Layout: deepest}}},
	} {
		encoded, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeLayout(encoded)
		if err != nil || !reflect.DeepEqual(*got, l) {
			t.Errorf("%s: got %+v, %v, want %+v", l.Name, got, err, l)
		}
	}
}

// Hosts of different versions exchange these bytes and their hashes.
func TestEncodedLayoutBytesAreStable(t *testing.T) {
	l := Layout{Name: "imu", Size: 24, Fields: []Field{{Name: "gyro", Type: Double, Count: []int{3}, Unit: "rad/s", Scale: 0.5}}}
	encoded, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const want = "a3" + "01" + "63696d75" + "02" + "1818" + "03" + "81" +
		"a5" + "01" + "646779726f" + "03" + "66646f75626c65" + "05" + "8103" + "09" + "657261642f73" + "0a" + "f93800"
	if got := hex.EncodeToString(encoded); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHostileEncodedLayoutsAreRefused(t *testing.T) {
	const head, field = "a3 01 6174 02 01 03 81", "a2 01 6178 03 65 75696e7438 " // t of one byte, x, a uint8
	for _, c := range []struct{ name, encoded, want string }{
		{"nothing", "", "not a layout"},
		{"no map", "81 01", "not a layout"},
		{"null", "f6", "not a layout"},
		{"empty", "a0", "name is missing"},
		{"something behind", head + field + "00", "not a layout"},
		{"cut", head + "a2 01 6178", "not a layout"},
		{"a key of a later version", "a4 01 6174 02 01 03 81" + field + "06 01", "not a layout"},
		{"a field's key of a later version", head + "a3 01 6178 03 65 75696e7438 0d f5", "not a layout"},
		{"a text key", "a4 01 6174 02 01 03 81" + field + "6161 01", "not a layout"},
		{"a key twice", "a4 01 6174 01 6174 02 01 03 81" + field, "not a layout"},
		{"keys in another order", "a3 02 01 01 6174 03 81" + field, "not a layout"},
		{"a number in a longer form", "a3 01 6174 02 1801 03 81" + field, "not a layout"},
		{"a number as text", "a3 01 6174 02 6131 03 81" + field, "not a layout"},
		{"a number as float", "a3 01 6174 02 f93c00 03 81" + field, "not a layout"},
		{"a size beyond 63 bits", "a3 01 6174 02 1bffffffffffffffff 03 81" + field, "not a layout"},
		{"a zero that could be left out", head + "a3 01 6178 02 00 03 65 75696e7438", "not a layout"},
		{"a list of nothing", head + "a3 01 6178 03 65 75696e7438 05 80", "not a layout"},
		{"a list without end", "a3 01 6174 02 01 03 9f" + field + "ff", "not a layout"},
		{"a tag", "a3 01 6174 02 c101 03 81" + field, "not a layout"},
		{"no UTF-8", "a3 01 61ff 02 01 03 81" + field, "not a layout"},
		{"a scale that is none", head + "a3 01 6178 03 65 75696e7438 0a f97e00", "scale: want a number"},
		{"an infinite scale", head + "a3 01 6178 03 65 75696e7438 0a f97c00", "scale: want a number"},
		{"an escape sequence", "a3 01 64 1b5b326a 02 01 03 81" + field, `"\x1b[2j" has the character '\x1b'`},
		{"a line break", head + "a2 01 63 610a62 03 65 75696e7438", `"a\nb" has the character '\n'`},
		{"HTML", head + "a3 01 6178 03 65 75696e7438 09 63 3c623e", "unit \"<b>\" has the character '<'"},
		{"a line break in a type", head + "a2 01 6178 03 63 610a62", `type "a\nb"`},
		{"an escape sequence twice", "a3 01 6174 02 02 03 82 a2 01 611b 03 65 75696e7438 a3 01 611b 02 01 03 65 75696e7438", "has the character '\\x1b'"},
		{"an escape sequence below", "a3 01 6174 02 02 03 82 a2 01 611b 03 66 75696e743136 a3 01 6178 02 01 03 65 75696e7438", "has the character '\\x1b'"},
		{"an escape sequence as a tail", "a4 01 6174 02 01 03 81" + field + "04 611b", `tail "\x1b"`},
		{"an escape sequence as a counter", "a5 01 6174 02 01 03 81" + field + "04 6178 05 611b", `count "\x1b"`},
		{"no room", head + "a3 01 6178 02 01 03 65 75696e7438", "outside the 1 bytes"},
		{"an offset below", head + "a3 01 6178 02 20 03 65 75696e7438", "outside the 1 bytes"},
		{"an offset of 2^63-1", head + "a3 01 6178 02 1b7fffffffffffffff 03 65 75696e7438", "outside the 1 bytes"},
		{"17 structs", deepHex(17), "more than 16 structs"},
		{"a thousand structs", deepHex(1000), "not a layout"},
		{"a giant list", "a3 01 6174 02 01 03 9a7fffffff", "not a layout"},
		{"4097 fields", "a3 01 6174 02 01 03 991001" + strings.Repeat("a0", 4097), "not a layout"},
		{"large", "a3 01 7a00010000" + strings.Repeat("61", 1<<16) + "02 01 03 81" + field, "want at most 65536"},
	} {
		encoded, err := hex.DecodeString(strings.ReplaceAll(c.encoded, " ", ""))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		_, err = DecodeLayout(encoded)
		if err == nil || !strings.Contains(err.Error(), c.want) || Printable(strings.Map(dropQuotes, err.Error()[:min(len(err.Error()), MaxName)])) != "" {
			t.Errorf("%s: got %v, want %q in plain text", c.name, err, c.want)
		}
	}
}

// dropQuotes drops the characters that our messages put around names.
func dropQuotes(r rune) rune {
	if strings.ContainsRune(forbidden, r) {
		return -1
	}
	return r
}

// deepHex returns the encoding of a struct that is nested in depth others.
func deepHex(depth int) string {
	text := "a2 01 6178 03 65 75696e7438"
	for range depth {
		text = "a4 01 6173 03 66 737472756374 04 01 0c 81" + text
	}
	return "a3 01 6174 02 01 03 81" + text
}

// The most expensive input for its size has the maximum number of lists, with empty fields.
func TestHostileEncodedLayoutCostsLittleMemory(t *testing.T) {
	list := slices.Concat([]byte{0x99, 0x10, 0x00}, slices.Repeat([]byte{0xa0}, 4096))
	encoded := []byte{0xa1, 0x03, 0x8f}
	for range 15 {
		encoded = append(append(encoded, 0xa1, 0x0c), list...)
	}
	if err := cbor.Wellformed(encoded); err != nil || len(encoded) > MaxText {
		t.Fatalf("%v, of %d bytes", err, len(encoded))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := DecodeLayout(encoded); err == nil {
		t.Fatal("fields without a name were accepted")
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 48<<20 {
		t.Errorf("got %d bytes allocated for %d of input", got, len(encoded))
	}
}

// FuzzUnpack unpacks arbitrary bytes from another host. A layout that is accepted has only one encoding and only
// printable texts, and it decodes frames without reading outside them.
func FuzzUnpack(f *testing.F) {
	for _, l := range []Layout{
		arm(), {Name: "t", Size: 1, Fields: nested(15)},
		{Name: "imu", Size: 24, Fields: []Field{{Name: "gyro", Type: Double, Count: []int{3}, Unit: "rad/s", Scale: 0.5}}},
		{Name: "t", Size: 4, Fields: []Field{{Name: "s", Type: Struct, Size: 4, Fields: many(2)}}},
		bitsBehindTail(), kinds(-1, 2), {Name: "t", Variants: []Variant{{Layout: arm()}}}, {Name: "M", Descriptors: ofProto(f, allKinds).Descriptors},
	} {
		encoded, err := encMode.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded, []byte("\x01\x00\x02\x00\x03\x00"))
	}
	f.Fuzz(func(t *testing.T, encoded, frame []byte) {
		l, err := DecodeLayout(encoded)
		if err != nil {
			return
		}
		if again, err := l.Encode(); err != nil || string(again) != string(encoded) {
			t.Fatalf("got %x, %v, want %x", again, err, encoded)
		}
		plain(t, *l)
		if l.Size > 1<<16 {
			return
		}
		for _, frame := range [][]byte{frame, append(frame, make([]byte, l.Size)...)[:l.Size]} {
			if v, err := l.Decode(slices.Clip(frame)); err == nil {
				shown(v)
			}
		}
	})
}

// plain fails unless all texts of a layout are printable.
func plain(t *testing.T, l Layout) {
	t.Helper()
	texts := []string{l.Name, l.Tail, l.Counter, l.By}
	var add func([]Field)
	add = func(fields []Field) {
		for _, f := range fields {
			texts = append(texts, f.Name, f.Unit, string(f.Type))
			for _, w := range f.Words {
				texts = append(texts, w.Name)
			}
			add(f.Fields)
		}
	}
	add(l.Fields)
	for _, v := range l.Variants {
		plain(t, v.Layout)
	}
	for _, text := range texts {
		if why := Printable(text); why != "" {
			t.Errorf("%q %s", text, why)
		}
	}
}
