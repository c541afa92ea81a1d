package debuginfo

import (
	"strings"
	"testing"

	"achbridge/bridge/layout"
)

const arms = `#include <stdint.h>
struct header { int64_t stamp; uint32_t kind, n; };
struct twist { double v, w; };
struct T { struct header header; union { float angles[4]; struct twist twist; }; union { int i; float f; } u; } t;`

// layoutOf returns the layout of struct T in a C text, and the warnings.
func layoutOf(t *testing.T, text string, chosen ...string) (*layout.Layout, string) {
	t.Helper()
	p, err := Open(compiled(t, "gcc -g", text))
	if err != nil {
		t.Fatal(err)
	}
	l, warnings, err := p.Layout("T", chosen...)
	if err != nil {
		t.Fatal(err)
	}
	return l, strings.Join(warnings, "\n")
}

func TestChosenUnionMemberReplacesTheFirst(t *testing.T) {
	l, warnings := layoutOf(t, arms)
	if l.Name != "T" || l.Fields[1].Name != "angles" || !l.Fields[1].Union || !l.Fields[2].Union || !strings.Contains(warnings, "--union") {
		t.Errorf("without a choice: got %+v, %s", l, warnings)
	}
	l, warnings = layoutOf(t, arms, "twist")
	if l.Name != "T_twist" || l.Fields[1].Name != "twist" || l.Fields[1].Union || !l.Fields[2].Union || l.Fields[2].Fields[0].Name != "i" || strings.Count(warnings, "--union") != 1 {
		t.Errorf("twist: got %+v, %s", l, warnings)
	}
	if l, warnings = layoutOf(t, arms, "twist", "f"); l.Fields[2].Union || l.Fields[2].Fields[0].Name != "f" || warnings != "" {
		t.Errorf("twist and f: got %+v, %s", l, warnings)
	}
	p, err := Open(compiled(t, "gcc -g", arms))
	if err == nil {
		_, _, err = p.Layout("T", "twist", "none")
	}
	if err == nil || !strings.Contains(err.Error(), "no union in it has the member none") {
		t.Errorf("got %v, want the missing member", err)
	}
}

func TestArrayOfOneElementIsATailIfItsNumberIsKnown(t *testing.T) {
	header := "#include <stdint.h>\nstruct header { int64_t sec; uint32_t nsec, n; };\n"
	for _, c := range []struct{ text, tail, counter, warning string }{
		{"struct T { struct header h; double x[1]; } t;", "x", "h.n", "x has h.n elements"},
		{"struct T { struct header h; int mode; struct { double pos, vel; } X[1]; } t;", "X", "h.n", "X has h.n elements"},
		{"struct T { uint64_t rows, cols; double x[1]; } t;", "x", "rows*cols", "x has rows*cols elements"},
		{"struct T { uint8_t n; double x[1][3]; } t;", "x", "n", "x has n elements"},
		{"struct T { double n; double x[1]; } t;", "", "", "x is declared with one element"},
		{"struct T { double x[1]; } t;", "", "", "x is declared with one element"},
		{"struct T { int n; double x[1]; double y; } t;", "", "", ""},
		{"struct T { int n; double x[2]; } t;", "", "", ""},
	} {
		l, warnings := layoutOf(t, header+c.text)
		if l.Tail != c.tail || l.Counter != c.counter || !strings.Contains(warnings, c.warning) || (warnings == "") != (c.warning == "") {
			t.Errorf("%s: got tail %q, counter %q, %s", c.text, l.Tail, l.Counter, warnings)
		}
	}
}

func TestUnalignedStructHasOffsetsOfC(t *testing.T) {
	l, _ := layoutOf(t, "struct T { char a; double b; short c : 3; short d : 13; int e; } __attribute__((packed)) t;")
	want := []int{0, 1, 9, 9, 11}
	for i, f := range l.Fields {
		if f.Offset+f.Bit/8 != want[i] {
			t.Errorf("%s: got offset %d, want %d", f.Name, f.Offset, want[i])
		}
	}
	if l.Size != 15 {
		t.Errorf("got %d bytes, want 15", l.Size)
	}
}

func TestMessagesOfProtobufCAreLeftOut(t *testing.T) {
	p, err := Open(compiled(t, "gcc -g", `
		typedef struct ProtobufCMessage { const void *descriptor; unsigned n; void *unknown; } ProtobufCMessage;
		typedef struct _Imu { ProtobufCMessage base; int has_x; double x; char *name; } Imu;
		struct plain { int a; } plain; Imu imu;`))
	if err != nil {
		t.Fatal(err)
	}
	list, left, err := p.Structs()
	if err != nil || left != 1 || len(list) != 1 || list[0].Name != "plain" {
		t.Errorf("got %v, %d left out, %v", list, left, err)
	}
	if _, _, err := p.Layout("Imu"); err == nil || !strings.Contains(err.Error(), "import its .proto file") {
		t.Errorf("got %v, want the .proto file as fix", err)
	}
}
