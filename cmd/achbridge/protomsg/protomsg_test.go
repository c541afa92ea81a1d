package protomsg

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"achbridge/bridge/layout"
	"achbridge/testnet/need"
)

// arm returns a layout with a field of each kind, and with names that differ only in case and _.
func arm() *layout.Layout {
	vec := []layout.Field{{Name: "x", Type: layout.Float, Unit: "rad/s"}, {Name: "y", Offset: 8, Type: layout.Float}}
	return &layout.Layout{Name: "arm msg", Size: 96, Tail: "m", Counter: "rows*cols", Fields: []layout.Field{
		{Name: "text", Type: layout.Char, Count: []int{4}},
		{Name: "texts", Offset: 4, Type: layout.Char, Count: []int{2, 2}},
		{Name: "gyro", Offset: 8, Type: layout.Struct, Size: 12, Count: []int{2}, Fields: vec},
		{Name: "mode", Offset: 32, Type: layout.Uint8, Words: []layout.Word{{Value: 2, Name: "run fast"}, {Value: 0, Name: "IDLE"}}},
		{Name: "Mode", Offset: 33, Type: layout.Int8, Words: []layout.Word{{Value: -1, Name: "IDLE"}}},
		{Name: "error", Offset: 34, Type: layout.Int32, Bits: 3},
		{Name: "wide", Offset: 36, Type: layout.Bytes, Size: 2, Count: []int{2}},
		{Name: "a-b", Offset: 40, Type: layout.Double},
		{Name: "ab", Offset: 48, Type: layout.Pointer},
		{Name: "2nd", Offset: 56, Type: layout.Bool, Count: []int{2}},
		{Name: "scaled", Offset: 58, Type: layout.Int16, Scale: 0.5, Count: []int{2}},
		{Name: "large", Offset: 64, Type: layout.Int64, Words: []layout.Word{{Value: 1 << 40, Name: "FAR"}}},
		{Name: "_", Offset: 72, Type: layout.Uint64},
		{Name: "inner", Offset: 80, Type: layout.Struct, Size: 4, Fields: []layout.Field{{Name: "inner", Type: layout.Int32, Words: []layout.Word{{Value: 7, Name: "IDLE"}}}}},
		{Name: "rows", Offset: 84, Type: layout.Uint8}, {Name: "cols", Offset: 85, Type: layout.Uint8},
		{Name: "m", Offset: 88, Type: layout.Int16},
	}}
}

func armFrame() []byte {
	frame := make([]byte, 88, 96)
	copy(frame, "ab\xffdefgh")
	frame[10], frame[11], frame[30], frame[31] = 0x80, 0x3f, 0x80, 0xbf // 1.0 and -1.0
	frame[32], frame[33], frame[34] = 2, 0xff, 6
	copy(frame[36:], "\x00\x01\x02\x03")
	frame[47], frame[48] = 0x80, 0x10 // the double -0.0, and a pointer
	copy(frame[56:], "\x02\x00\xff\xff\x03\x00")
	for i := range 8 {
		frame[64+i], frame[72+i] = 0xff, 0xff
	}
	frame[80], frame[84], frame[85] = 7, 1, 2
	return append(frame, 5, 0, 0xff, 0xff)
}

const pythonReader = `
import sys
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
pool = descriptor_pool.DescriptorPool()
for f in descriptor_pb2.FileDescriptorSet.FromString(open(sys.argv[1], 'rb').read()).file:
    pool.Add(f) if hasattr(pool, 'Add') else pool.AddSerializedFile(f.SerializeToString())
descriptor = pool.FindMessageTypeByName(sys.argv[2])
kind = message_factory.GetMessageClass(descriptor) if hasattr(message_factory, 'GetMessageClass') else message_factory.MessageFactory(pool).GetPrototype(descriptor)
m = kind.FromString(bytes.fromhex(sys.argv[3]))
print(text_format.MessageToString(m, as_one_line=True, as_utf8=True))
print(m.SerializeToString(deterministic=True).hex())
`

// read returns a message as Python sees it.
func read(t *testing.T, m *Message, frame []byte) string {
	t.Helper()
	if out, err := exec.Command("/usr/bin/python3", "-c", "import google.protobuf").CombinedOutput(); err != nil {
		need.Missing(t, fmt.Sprintf("protobuf for Python: apt-get install python3-protobuf: %v: %s", err, out))
	}
	path := filepath.Join(t.TempDir(), "descriptors")
	if err := os.WriteFile(path, m.Descriptors, 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := m.Append(nil, frame)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command("/usr/bin/python3", "-c", pythonReader, path, m.Name, hex.EncodeToString(b))
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python3: %v\n%s", err, said.String())
	}
	text, again, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if again != hex.EncodeToString(b) {
		t.Errorf("got the bytes %s, want those that Python writes: %s", hex.EncodeToString(b), again)
	}
	return text
}

func TestStructAsMessageIsReadByPython(t *testing.T) {
	l := arm()
	if found := l.Check(); found != nil {
		t.Fatal(found)
	}
	m, err := Of(l)
	if err != nil {
		t.Fatal(err)
	}
	want := `text: "ab` + "\ufffd" + `d" texts: "ef" texts: "gh" gyro { x: 1.0 } gyro { y: -1.0 } mode: ModeType_run_fast Mode_2: Mode_2Type_IDLE error: -2` +
		` wide: "\000\001" wide: "\002\003" a_b: -0.0 ab_2: 16 x2nd: true x2nd: false scaled: -0.5 scaled: 1.5 large: -1 x: 18446744073709551615` +
		` inner { inner: InnerType_IDLE } rows: 1 cols: 2 m: 5 m: -1`
	if got := read(t, m, armFrame()); m.Name != "achbridge.arm_msg" || got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", m.Name, got, want)
	}
	if _, err := m.Append(nil, armFrame()[:80]); err == nil {
		t.Error("a frame of another size was accepted")
	}
}

func TestVariantsAreFieldsOfOneMessage(t *testing.T) {
	kind := layout.Field{Name: "kind", Type: layout.Uint8}
	l := &layout.Layout{Name: "imu|arm", By: "kind", Variants: []layout.Variant{
		{Value: 1, Layout: layout.Layout{Name: "imu", Size: 2, Fields: []layout.Field{kind, {Name: "x", Type: layout.Int8, Offset: 1}}}},
		{Value: 2, Layout: layout.Layout{Name: "imu", Size: 3, Fields: []layout.Field{kind, {Name: "joints", Type: layout.Int8, Offset: 1, Count: []int{2}}}}},
	}}
	m, err := Of(l)
	if err != nil {
		t.Fatal(err)
	}
	for frame, want := range map[string]string{"\x01\xff": "imu { kind: 1 x: -1 }", "\x02\x03\x04": "imu_2 { kind: 2 joints: 3 joints: 4 }"} {
		if got := read(t, m, []byte(frame)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestProtobufFramesStayAsTheyAre(t *testing.T) {
	of, err := Of(arm())
	if err != nil {
		t.Fatal(err)
	}
	l := &layout.Layout{Name: of.Name, Descriptors: of.Descriptors}
	if found := l.Check(); found != nil {
		t.Fatal(found)
	}
	m, err := Of(l)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := m.Append([]byte("before"), []byte("\x0a\x01a")); err != nil || string(b) != "before\x0a\x01a" || m.Name != l.Name || string(m.Descriptors) != string(l.Descriptors) {
		t.Errorf("got %q, %s, %v", b, m.Name, err)
	}
}

// flat appends the single values in v to all, in their order. It appends a mark for each struct.
func flat(all []layout.Value, v layout.Value) []layout.Value {
	if n, ok := v.Len(); ok {
		for i := range n {
			all = flat(all, v.At(i))
		}
		return all
	}
	if v.Field().Type == layout.Struct {
		for i := range v.Field().Fields {
			all = flat(all, v.Member(i))
		}
		return all
	}
	return append(all, v)
}

// FuzzMessage converts frames of arbitrary layouts to messages, and decodes the same values from these.
func FuzzMessage(f *testing.F) {
	for _, l := range []*layout.Layout{
		arm(), {Name: "t", Size: 24, Fields: []layout.Field{{Name: "b", Type: layout.Int64, Bit: 5, Bits: 64}, {Name: "s", Offset: 16, Type: layout.Struct, Size: 4, Count: []int{2}, Fields: []layout.Field{{Name: "-", Type: layout.Float}}}}},
		{Name: "t", Size: 2, Tail: "x", Fields: []layout.Field{{Name: "x", Type: layout.Char, Count: []int{2}}}},
	} {
		text, err := json.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, armFrame())
	}
	f.Fuzz(func(t *testing.T, text, frame []byte) {
		var l layout.Layout
		if json.Unmarshal(text, &l) != nil || len(l.Check()) > 0 || l.Variants != nil || l.Descriptors != nil || l.Size > 1<<16 {
			return
		}
		m, err := Of(&l)
		if err != nil {
			t.Fatal(err)
		}
		as := &layout.Layout{Name: m.Name, Descriptors: m.Descriptors}
		if found := as.Check(); len(found) > 0 {
			if len(m.Descriptors) < 40<<10 && len(m.Name) <= layout.MaxName {
				t.Fatalf("%s: %v", text, found)
			}
			return
		}
		for _, frame := range [][]byte{frame, append(frame, make([]byte, l.Size)...)[:l.Size]} {
			v, err := l.Decode(frame)
			b, appended := m.Append(nil, frame)
			if (err == nil) != (appended == nil) {
				t.Fatalf("Decode: %v, Append: %v", err, appended)
			}
			if err != nil {
				continue
			}
			got, err := as.Decode(b)
			if err != nil {
				t.Fatalf("%s: %x: %v", text, b, err)
			}
			compare(t, flat(nil, v), flat(nil, got))
		}
	})
}

func compare(t *testing.T, want, got []layout.Value) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d values, want %d", len(got), len(want))
	}
	for i, w := range want {
		x, isNumber := w.Number()
		y, _ := got[i].Number()
		isSame := false
		switch {
		case w.Field().Type == layout.Pointer:
			isSame = w.Bits() == got[i].Bits()
		case w.Field().Type == layout.Bool:
			isSame = (w.Bits() != 0) == (got[i].Bits() != 0)
		case isNumber:
			beyond := w.Field().Words != nil && w.Bits() > math.MaxInt32 // values of protobuf enumerations have 32 bits
			isSame = x == y || math.IsNaN(x) && math.IsNaN(y) || beyond
		default:
			isSame = strings.ToValidUTF8(w.Text(), "\ufffd") == got[i].Text()
		}
		if !isSame {
			t.Errorf("%s: got %s, want %s", w.Field().Name, got[i].Text(), w.Text())
		}
	}
}

// A peer's layout can have thousands of equal words.
func TestManyEqualNamesTakeFewAllocations(t *testing.T) {
	words := make([]layout.Word, layout.MaxFields)
	for i := range words {
		words[i] = layout.Word{Value: int64(i), Name: "a"}
	}
	l := &layout.Layout{Name: "t", Size: 4, Fields: []layout.Field{{Name: "x", Type: layout.Int32, Words: words}}}
	if found := l.Check(); len(found) > 0 {
		t.Fatal(found)
	}
	allocations := testing.AllocsPerRun(1, func() {
		if m, err := Of(l); err != nil || !strings.Contains(string(m.Descriptors), "XType_a_4096") {
			t.Errorf("got %v, %v, want different names of all words", m, err)
		}
	})
	if most := float64(100 * len(words)); allocations > most {
		t.Errorf("got %v allocations for %d words, want at most %v", allocations, len(words), most)
	}
}
