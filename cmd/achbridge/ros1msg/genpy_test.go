package ros1msg_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/debuginfo"
	"achbridge/cmd/achbridge/ros1msg"
	"achbridge/testnet/need"
)

// asked is the input of ROS 1's own decoder for one type.
type asked struct {
	Name   string   `json:"name"`
	Text   string   `json:"text"`
	Frames []string `json:"frames"` // in hexadecimal
}

// answer is the decoder's output for one frame.
type answer struct {
	Bytes  string         `json:"bytes"` // the frame after decoding and encoding, in hexadecimal
	Values map[string]any `json:"values"`
}

const decoder = `
import io, json, sys
import genpy.dynamic
def flat(out, path, v):
    if isinstance(v, genpy.Message):
        for given, name in zip(v._spec.names if hasattr(v, '_spec') else v.__slots__, v.__slots__):
            flat(out, path + '.' + given if path else given, getattr(v, name))
    elif isinstance(v, bytes):
        out[path] = v.hex()
        for i, e in enumerate(v):
            out['%s[%d]' % (path, i)] = str(e)
    elif isinstance(v, (list, tuple)):
        for i, e in enumerate(v):
            flat(out, '%s[%d]' % (path, i), e)
    else:
        out[path] = v if isinstance(v, float) else str(v)
answers = []
for a in json.load(sys.stdin):
    kind = genpy.dynamic.generate_dynamic(a['name'], a['text'])[a['name']]
    frames = []
    for f in a['frames']:
        m = kind()
        m.deserialize(bytes.fromhex(f))
        b, values = io.BytesIO(), {}
        m.serialize(b)
        flat(values, '', m)
        frames.append({'bytes': b.getvalue().hex(), 'values': values})
    answers.append(frames)
json.dump(answers, sys.stdout)
`

// ask runs the decoder of ROS 1. It returns an answer for each frame.
func ask(t *testing.T, all []asked) (answers [][]answer) {
	t.Helper()
	if out, err := exec.Command("/usr/bin/python3", "-c", "import genpy.dynamic").CombinedOutput(); err != nil {
		need.Missing(t, fmt.Sprintf("ROS 1's decoder: apt-get install python3-genpy: %v: %s", err, out))
	}
	in, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/usr/bin/python3", "-c", decoder)
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("genpy: %v\n%s", err, said.String())
	}
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatal(err)
	}
	return answers
}

// expected adds the values of a frame to out, by their names in the schema.
func expected(out map[string]layout.Value, names map[string]string, path, plain string, v layout.Value) {
	f := v.Field()
	if f.Union || f.Bits > 0 || f.Type == layout.Char || f.Type == layout.Bytes {
		return // the schema has only bytes for them, and check compares all bytes of the frame
	}
	if _, ok := v.Len(); ok {
		for i, e := range flat(v) {
			expected(out, names, fmt.Sprintf("%s[%d]", path, i), plain, e)
		}
		return
	}
	if f.Type != layout.Struct {
		out[path] = v
		return
	}
	for i := range v.Field().Fields {
		m := v.Member(i)
		old := strings.TrimPrefix(plain+"."+m.Field().Name, ".")
		name := m.Field().Name
		if as, ok := names[old]; ok {
			name = as
		}
		expected(out, names, strings.TrimPrefix(path+"."+name, "."), old, m)
	}
}

// flat returns the elements of an array, row by row.
func flat(v layout.Value) (list []layout.Value) {
	n, ok := v.Len()
	if !ok {
		return []layout.Value{v}
	}
	for i := range n {
		list = append(list, flat(v.At(i))...)
	}
	return list
}

func same(v layout.Value, got any) bool {
	f, text := v.Field(), v.Text()
	if x, ok := got.(float64); ok {
		want, err := strconv.ParseFloat(text, 64)
		return err == nil && (x == want || f.Type == layout.Float && float32(x) == float32(want))
	}
	for _, w := range f.Words {
		if w.Name == text {
			text = strconv.FormatInt(w.Value, 10)
		}
	}
	if f.Type == layout.Pointer {
		n, _ := strconv.ParseUint(text, 0, 64)
		text = strconv.FormatUint(n, 10)
	}
	return strings.EqualFold(text, fmt.Sprint(got))
}

// check decodes and encodes frames with ROS 1's decoder, and compares the bytes and values with ours. It returns the number of
// compared values.
func check(t *testing.T, layouts []layout.Layout, frames [][][]byte) (values int) {
	t.Helper()
	var all []asked
	var schemas []*ros1msg.Schema
	for i := range layouts {
		s, err := ros1msg.Of(&layouts[i])
		if err != nil {
			t.Fatal(err)
		}
		a := asked{Name: s.Name, Text: s.Text}
		for _, f := range frames[i] {
			a.Frames = append(a.Frames, hex.EncodeToString(f))
		}
		all, schemas = append(all, a), append(schemas, s)
	}
	for i, answers := range ask(t, all) {
		names := map[string]string{}
		for _, r := range schemas[i].Renamed {
			names[r.Field] = r.As
		}
		for j, got := range answers {
			if got.Bytes != all[i].Frames[j] {
				t.Errorf("%s\nframe after decoding and encoding:\ngot  %s\nwant %s", schemas[i].Text, got.Bytes, all[i].Frames[j])
			}
			root, err := layouts[i].Decode(frames[i][j])
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]layout.Value{}
			expected(want, names, "", "", root)
			for path, v := range want {
				values++
				if x, ok := got.Values[path]; !ok || !same(v, x) {
					t.Errorf("%s\n%s in ROS 1: got %v, want %s", schemas[i].Text, path, x, v.Text())
				}
			}
		}
		if t.Failed() {
			return values
		}
	}
	return values
}

// maker makes random layouts, and frames of them without NaN.
type maker struct{ *rand.Rand }

var fieldNames = []string{"x", "y rate", "y_rate", "2nd", "_low", "class", "serialize", "pos-z", "pos_z", "padding_0", "time", "Header", "b", "c", "self", "from"}

func (m maker) fields(depth int) (fields []layout.Field, size int) {
	names := slices.Clone(fieldNames)
	m.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	kinds := []layout.Type{layout.Int8, layout.Int16, layout.Int32, layout.Int64, layout.Uint8, layout.Uint16, layout.Uint32, layout.Uint64,
		layout.Float, layout.Double, layout.Bool, layout.Char, layout.Pointer, layout.Bytes, layout.Struct}
	for i := range 1 + m.IntN(8) {
		f := layout.Field{Name: names[i], Offset: size + m.IntN(4), Type: kinds[m.IntN(len(kinds))], Union: m.IntN(12) == 0}
		switch {
		case f.Type == layout.Struct && depth < 3:
			f.Fields, f.Size = m.fields(depth + 1)
		case f.Type == layout.Struct, f.Type == layout.Bytes:
			f.Type, f.Size = layout.Bytes, 1+m.IntN(16)
		case f.Type == layout.Int8 || f.Type == layout.Uint16:
			f.Words = []layout.Word{{Value: 3, Name: "RUN"}, {Value: 0, Name: "x"}, {Value: -1, Name: "no way"}}
		}
		n := max(f.Type.OwnSize(), f.Size)
		switch m.IntN(5) {
		case 0:
			f.Count = []int{1 + m.IntN(4)}
			n *= f.Count[0]
		case 1:
			f.Count = []int{1 + m.IntN(3), 1 + m.IntN(3)}
			n *= f.Count[0] * f.Count[1]
		case 2:
			if f.Type == layout.Uint32 || f.Type == layout.Int16 {
				f.Bit, f.Bits, f.Words = m.IntN(8), 1+m.IntN(14), nil
				n = (f.Bit + f.Bits + 7) / 8
			}
		}
		fields, size = append(fields, f), f.Offset+n
	}
	return fields, size + m.IntN(4)
}

// fill replaces random bytes by valid values where a struct cannot contain any bytes: bool, float and double.
func (m maker) fill(b []byte, fields []layout.Field) {
	for i := range fields {
		f := &fields[i]
		n, each := 1, max(f.Type.OwnSize(), f.Size)
		for _, c := range f.Count {
			n *= c
		}
		for j := range n {
			at := f.Offset + j*each
			switch {
			case f.Bits > 0, f.Union:
			case f.Type == layout.Bool:
				b[at] &= 1
			case f.Type == layout.Float:
				_, _ = binary.Encode(b[at:], binary.LittleEndian, float32(m.NormFloat64()))
			case f.Type == layout.Double:
				_, _ = binary.Encode(b[at:], binary.LittleEndian, m.NormFloat64())
			case f.Type == layout.Struct:
				m.fill(b[at:], f.Fields)
			}
		}
	}
}

func TestROSDecodesRandomLayoutsLikeUs(t *testing.T) {
	m := maker{rand.New(rand.NewPCG(7, 7))}
	var layouts []layout.Layout
	var frames [][][]byte
	for i := range 60 {
		l := layout.Layout{Name: fmt.Sprintf("type-%d", i)}
		l.Fields, l.Size = m.fields(0)
		if p := l.Check(); p != nil {
			t.Fatalf("%+v: %v", l, p)
		}
		var some [][]byte
		for range 3 {
			b := make([]byte, l.Size)
			for i := range b {
				b[i] = byte(m.Uint32())
			}
			m.fill(b, l.Fields)
			some = append(some, b)
		}
		layouts, frames = append(layouts, l), append(frames, some)
	}
	if n := check(t, layouts, frames); n < 1000 {
		t.Errorf("got only %d compared values", n)
	}
}

const program = `#include <stdio.h>
#include <stdint.h>
#include <stdbool.h>
enum mode { IDLE, RUN = 2, BACK = -1 };
struct vec { float x, y, z; };
struct state {
	int64_t stamp; struct vec gyro; enum mode mode; bool ready; int error : 3; unsigned tries : 5;
	char frame[8]; void *owner; double m[2][3]; struct vec legs[2]; union { int i; double d; } u; long double wide;
	int8_t small; uint16_t ports[3];
} s = { -5, { 1.5, -2, 0.25 }, BACK, true, -2, 9, "body", (void *)77, { { 1, 2, 3 }, { 4, 5, 6.125 } },
	{ { 1, 2, 3 }, { 4, 5, 6 } }, { 12 }, 1, -7, { 1, 65535, 3 } };
int main(void) { fwrite(&s, sizeof s, 1, stdout); return 0; }
`

// The wanted values repeat those of the C program.
func TestROSDecodesStructWrittenByC(t *testing.T) {
	need.Program(t, "gcc", "gcc")
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "a.c"), filepath.Join(dir, "a")
	if err := os.WriteFile(source, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-g", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	frame, err := exec.Command(binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	p, err := debuginfo.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := p.Layout("state")
	if err != nil {
		t.Fatal(err)
	}
	check(t, []layout.Layout{*l}, [][][]byte{{frame}})
	s, err := ros1msg.Of(l)
	if err != nil {
		t.Fatal(err)
	}
	got := ask(t, []asked{{s.Name, s.Text, []string{hex.EncodeToString(frame)}}})[0][0].Values
	for path, want := range map[string]any{
		"stamp": "-5", "gyro.x": 1.5, "gyro.z": 0.25, "mode": "-1", "ready": "True", "owner": "77", "frame": "626f647900000000",
		"m[2]": 3.0, "m[3]": 4.0, "m[5]": 6.125, "legs[1].y": 5.0, "small": "-7", "ports[1]": "65535",
	} {
		if got[path] != want {
			t.Errorf("%s in ROS 1: got %v, want %v as in C\n%s", path, got[path], want, s.Text)
		}
	}
}
