package debuginfo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"achbridge/bridge/layout"
	"achbridge/testnet/need"
)

// compiled compiles a C or C++ text and returns the path of the object file.
func compiled(t *testing.T, options, text string) string {
	t.Helper()
	args := strings.Fields(options)
	need.Program(t, args[0], args[0])
	return built(t, append(args, "-c"), text)
}

func TestUnsupportedDebugInfoErrorNamesTheReason(t *testing.T) {
	for _, c := range []struct{ options, text, name, want string }{
		{"g++ -g", "struct A { int a; }; struct T : virtual A { int b; } t;", "T", "virtual"},
		{"g++ -g", "struct T { virtual void f() {} int b; } t;", "T", "virtual functions"},
		{"gcc -g", "struct other { int a; } t;", "T", "does not exist"},
		{"gcc -g -gsplit-dwarf", "struct T { int a; } t;", "T", "without -gsplit-dwarf"},
		{"g++ -gdwarf-4 -fdebug-types-section", "struct T { int a; } t;", "T", "without -fdebug-types-section"},
		{"g++ -gdwarf-5 -fdebug-types-section", "struct T { int a; } t;", "T", "without -fdebug-types-section"},
		{"gcc -g0", "struct T { int a; } t;", "T", "build with -g"},
		{"gcc -g -flto", "struct T { int a; } t;", "T", "-flto"},
		{"gcc -g", "struct T { int n; struct { int m; double x[]; } inner; } t;", "T", "not at the end"},
		{"gcc -g", "struct opaque; struct T { struct opaque *p; void (*f)(void); } t;", "T", ""},
	} {
		p, err := Open(compiled(t, c.options, c.text))
		if err == nil {
			_, _, err = p.Layout(c.name)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %s: got %v, want an error with %q", c.options, c.text, err, c.want)
		}
	}
}

// A C++ enum can have an explicit underlying type.
func TestEnumHasTypeOfItsStorage(t *testing.T) {
	p, err := Open(compiled(t, "g++ -g", "enum class gear : signed char { park, drive }; enum class mode : unsigned { off, on }; struct T { gear g; mode m; } t;"))
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := p.Layout("T")
	if err != nil || len(l.Fields) != 2 || l.Fields[0].Type != layout.Int8 || l.Fields[1].Type != layout.Uint32 {
		t.Errorf("got %+v, %v, want int8 and uint32", l, err)
	}
}

func TestLinkedTypeUnitsAreRefused(t *testing.T) {
	need.Program(t, "g++", "g++")
	p, err := Open(built(t, []string{"g++", "-gdwarf-5", "-fdebug-types-section"}, "struct T { int a; } t; int main() { return 0; }"))
	if err == nil {
		_, _, err = p.Layout("T")
	}
	if err == nil || !strings.Contains(err.Error(), "without -fdebug-types-section") {
		t.Errorf("got %v, want the option without which to build", err)
	}
}

// testdata/state.o was compiled from testdata/state.rs:
//
//	rustc --crate-type=lib --emit=obj -g -o state.o state.rs
func TestLayoutOfRustStruct(t *testing.T) {
	p, err := Open("testdata/state.o")
	if err != nil {
		t.Fatal(err)
	}
	l, warnings, err := p.Layout("State")
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "repr(C)") {
		t.Fatalf("got %v, %q", err, warnings)
	}
	var got []string
	for _, f := range l.Fields {
		got = append(got, fmt.Sprintf("%d %s %s %v %v", f.Offset, f.Name, f.Type, f.Count, f.Words))
	}
	want := "0 stamp uint64 [] []\n8 q float [3] []\n24 inner struct [] []\n40 mode uint8 [] [{0 Idle} {2 Run}]\n42 count int16 [] []"
	if strings.Join(got, "\n") != want || l.Size != 48 {
		t.Errorf("got %d bytes\n%s\nwant\n%s", l.Size, strings.Join(got, "\n"), want)
	}
	if l, _, err = p.Layout("Loose"); err != nil || l.Fields[0].Name != "b" {
		t.Errorf("got %+v, %v, want the fields by their offsets", l, err)
	}
}

func TestOpenRefusesBigEndianAndNonELFFiles(t *testing.T) {
	header := make([]byte, 64)
	copy(header, "\x7fELF\x02\x02\x01")
	header[17], header[19], header[23], header[53], header[59] = 1, 21, 1, 64, 64 // relocatable, PowerPC
	path := filepath.Join(t.TempDir(), "file")
	for text, want := range map[string]string{string(header): "big-endian", "": "no ELF", "#!/bin/sh\n": "no ELF"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestDwzFileIsRefused(t *testing.T) {
	object := compiled(t, "gcc -g", "struct T { int a; } t;")
	if out, err := exec.Command(need.Program(t, "objcopy", "binutils"), "--add-section", ".gnu_debugaltlink="+filepath.Join(filepath.Dir(object), "a.c"), object).CombinedOutput(); err != nil {
		t.Fatalf("objcopy: %v: %s", err, out)
	}
	if _, err := Open(object); err == nil || !strings.Contains(err.Error(), "dwz") {
		t.Errorf("got %v, want an error about dwz", err)
	}
}

func TestAmbiguousStructErrorNamesTheFiles(t *testing.T) {
	one := compiled(t, "gcc -g", "struct T { int a; } one;")
	two := compiled(t, "gcc -g", "struct T { double b; } two;")
	same := compiled(t, "gcc -g", "struct T { int a; } same; int main(void) { return 0; }")
	link := func(objects ...string) string {
		program := filepath.Join(t.TempDir(), "program")
		if out, err := exec.Command("gcc", append(objects, "-o", program)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return program
	}
	p, err := Open(link(one, two, same))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = p.Layout("T"); err == nil || !strings.Contains(err.Error(), "4 bytes in a.c, 8 bytes in a.c") {
		t.Errorf("got %v, want both with their files", err)
	}
	if p, err = Open(link(one, same)); err != nil {
		t.Fatal(err)
	}
	if _, _, err = p.Layout("T"); err != nil {
		t.Errorf("two equal structs: got %v, want no error", err)
	}
	if list, _, _ := p.Structs(); len(list) == 0 || list[len(list)-1] != (Struct{"T", 4, "a.c"}) && !has(list, Struct{"T", 4, "a.c"}) {
		t.Errorf("got %v, want T once", list)
	}
}

func has(list []Struct, s Struct) bool {
	n := 0
	for _, o := range list {
		if o == s {
			n++
		}
	}
	return n == 1
}

func TestLayoutOfTemplatesAndWarnings(t *testing.T) {
	p, err := Open(compiled(t, "g++ -g", `namespace robot { template <class T, int N> struct Vec { T x[N]; }; struct Imu { Vec<double, 3> gyro; void *p; union { int i; float f; } u; double rest[]; } imu; }
		robot::Vec<float, 2> v;`))
	if err != nil {
		t.Fatal(err)
	}
	l, warnings, err := p.Layout("Imu")
	if err != nil {
		t.Fatal(err)
	}
	if l.Name != "robot::Imu" || l.Tail != "rest" || l.Counter != "" || !strings.Contains(strings.Join(warnings, "\n"), "p is a pointer") || !strings.Contains(strings.Join(warnings, "\n"), "u is a union") {
		t.Errorf("got %+v, %q, want robot::Imu with tail rest, and warnings about the pointer and the union", l, warnings)
	}
	if l, _, err := p.Layout("robot::Vec<float, 2>"); err != nil || l.Name != "robot::Vec(float, 2)" {
		t.Errorf("got %v, %v, want robot::Vec(float, 2)", l, err)
	}
}
