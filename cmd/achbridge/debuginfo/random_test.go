package debuginfo

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"achbridge/bridge/layout"
	"achbridge/testnet/need"
)

// structMaker writes random structs, and C code that prints their values.
type structMaker struct {
	*rand.Rand
	types  strings.Builder
	prints strings.Builder
	names  int
	cpp    bool
}

func (m *structMaker) name(prefix string) string {
	m.names++
	return fmt.Sprintf("%s%d", prefix, m.names)
}

// leaf returns C code that prints one value and its offset. The path is below v.
func (m *structMaker) leaf(path, kind string) string {
	return m.bits(path, kind) + fmt.Sprintf("\tprintf(\"O %[1]s %%d\\n\", (int)offsetof(__typeof__(v), %[1]s));\n", strings.TrimPrefix(path, "."))
}

// bits is like leaf, without the offset, which C does not define for a bit field.
func (m *structMaker) bits(path, kind string) string {
	show := map[string]string{
		"int": `printf("V %s %%lld\n", (long long)v%s);`, "uint": `printf("V %s %%llu\n", (unsigned long long)v%s);`,
		"float": `printf("V %s %%.9g\n", (double)v%s);`, "double": `printf("V %s %%.17g\n", v%s);`,
		"bool": `printf("V %s %%d\n", (int)v%s);`, "pointer": `printf("V %s %%llu\n", (unsigned long long)(uintptr_t)v%s);`,
		"text": `printf("V %s "); text(v%s, sizeof v` + path + `);`,
	}[kind]
	if show == "" {
		return ""
	}
	set := ""
	if kind == "bool" {
		set = "\tv" + path + " = next() & 1;\n"
	}
	return set + "\t" + fmt.Sprintf(show, strings.TrimPrefix(path, "."), path) + "\n"
}

var scalars = []struct{ c, kind string }{
	{"signed char", "int"}, {"unsigned char", "uint"}, {"int8_t", "int"}, {"short", "int"}, {"uint16_t", "uint"}, {"int", "int"}, {"unsigned", "uint"},
	{"long", "int"}, {"uint64_t", "uint"}, {"float", "float"}, {"double", "double"}, {"bool", "bool"}, {"void *", "pointer"}, {"const int *", "pointer"},
	{"enum small", "uint"}, {"enum below", "int"}, {"long double", "none"}, {"stamp_t", "int"}, {"volatile double", "double"},
}

// member returns the declaration of a member, and C code that prints it: first assignments, then prints.
func (m *structMaker) member(path string, depth int) (declared, printed string) {
	name := m.name("m")
	at := path + "." + name
	switch n := m.IntN(14); {
	case n == 0 && depth < 3:
		fields, print := m.members(at, depth+1)
		return fmt.Sprintf("struct {\n%s} %s%s;\n", fields, m.attribute(), name), print
	case n == 1 && depth < 3:
		first, print := m.member(path, depth+3)
		return fmt.Sprintf("union {\n%slong other%s[3];\n};\n", first, name), print
	case n == 2 && depth < 3:
		first, print := m.member(at, depth+3)
		return fmt.Sprintf("union {\n%schar other[9];\n} %s;\n", first, name), print
	case n == 3:
		return fmt.Sprintf("char %s[%d];\n", name, 1+m.IntN(20)), m.leaf(at, "text")
	case n == 4 && depth < 3:
		w := 1 + m.IntN(3)
		return fmt.Sprintf("int %s_: %d; unsigned %s: %d; unsigned long long %s__: %d; bool %s___: 1;\n", name, 1+m.IntN(31), name, w, name, 1+m.IntN(63), name),
			m.bits(at+"_", "int") + m.bits(at, "uint") + m.bits(at+"__", "uint") + m.bits(at+"___", "bool")
	case n == 5:
		s := scalars[m.IntN(len(scalars))]
		rows, columns := 1+m.IntN(3), 1+m.IntN(3)
		for i := range rows {
			for j := range columns {
				printed += m.leaf(fmt.Sprintf("%s[%d][%d]", at, i, j), s.kind)
			}
		}
		return fmt.Sprintf("%s %s[%d][%d];\n", s.c, name, rows, columns), printed
	case n == 6:
		for i := range 2 {
			printed += m.leaf(fmt.Sprintf("%s[%d].x", at, i), "double") + m.leaf(fmt.Sprintf("%s[%d].on", at, i), "bool")
		}
		return fmt.Sprintf("struct pair %s[2];\n", name), printed
	case n == 7:
		return fmt.Sprintf("char %s[2][5];\n", name), m.leaf(at+"[0]", "text") + m.leaf(at+"[1]", "text")
	default:
		s := scalars[m.IntN(len(scalars))]
		return fmt.Sprintf("%s %s;\n", s.c, name), m.leaf(at, s.kind)
	}
}

func (m *structMaker) attribute() string {
	return []string{"", "", "", "__attribute__((packed)) ", "__attribute__((aligned(16))) "}[m.IntN(5)]
}

func (m *structMaker) members(path string, depth int) (fields, print string) {
	for range 1 + m.IntN(7) {
		f, p := m.member(path, depth)
		fields, print = fields+f, print+p
	}
	return fields, print
}

// add adds one struct, and the code that prints its values.
func (m *structMaker) add(i int) {
	base := ""
	fields, print := m.members("", 0)
	if m.cpp && m.IntN(2) == 0 {
		more, printMore := m.members("", 0)
		fmt.Fprintf(&m.types, "struct Base%d {\n%s};\n", i, more)
		base, print = fmt.Sprintf(": Base%d, Empty ", i), printMore+print
	}
	attribute := m.attribute()
	if base != "" {
		attribute = ""
	}
	fmt.Fprintf(&m.types, "struct %sS%d %s{\n%s};\n", attribute, i, base, fields)
	sets, prints := "", ""
	for line := range strings.Lines(print) {
		if strings.HasPrefix(line, "\tv.") {
			sets += line
		} else {
			prints += line
		}
	}
	fmt.Fprintf(&m.prints, "{ struct S%d v; fill(&v, sizeof v);\n%s\tprintf(\"S %d \"); bytes(&v, sizeof v);\n%s}\n", i, sets, i, prints)
}

const frameOfC = `#include <stdio.h>
#include <stdint.h>
#include <stdbool.h>
#include <stddef.h>
enum small { small_a, small_b = 7 };
enum below { below_a = -3, below_b = 9 };
typedef int32_t stamp_t;
struct pair { double x; bool on; };
static unsigned long long seed = 88172645463325252ull;
static unsigned next(void) { seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return (unsigned)(seed >> 20); }
static void fill(void *p, size_t n) { for (size_t i = 0; i < n; i++) ((unsigned char *)p)[i] = next(); }
static void bytes(const void *p, size_t n) { for (size_t i = 0; i < n; i++) printf("%02x", ((const unsigned char *)p)[i]); printf("\n"); }
static void text(const char *p, size_t n) { printf("x"); for (size_t i = 0; i < n && p[i]; i++) printf("%02x", (unsigned char)p[i]); printf("\n"); }
`

// flattened adds the values in v to all, by their C paths (a.b[2]).
func flattened(all map[string]layout.Value, path string, v layout.Value) {
	if n, ok := v.Len(); ok {
		for i := range n {
			flattened(all, fmt.Sprintf("%s[%d]", path, i), v.At(i))
		}
		return
	}
	if v.Field().Type == layout.Struct {
		for i := range v.Field().Fields {
			m := v.Member(i)
			flattened(all, strings.TrimPrefix(path+"."+m.Field().Name, "."), m)
		}
		return
	}
	all[path] = v
}

// same reports whether C printed the value.
func same(v layout.Value, printed string) bool {
	got, f := v.Text(), v.Field()
	for _, w := range f.Words {
		if w.Name == got {
			got = strconv.FormatInt(w.Value, 10)
		}
	}
	switch f.Type {
	case layout.Char:
		return "x"+hex.EncodeToString([]byte(got)) == printed
	case layout.Bool:
		return got == strconv.FormatBool(printed == "1")
	case layout.Pointer:
		n, err := strconv.ParseUint(printed, 10, 64)
		return err == nil && got == fmt.Sprintf("%#x", n)
	case layout.Float, layout.Double:
		a, _ := strconv.ParseFloat(got, 64)
		b, _ := strconv.ParseFloat(printed, 64)
		return a == b || math.IsNaN(a) && math.IsNaN(b) || f.Type == layout.Float && float32(a) == float32(b)
	}
	return got == printed
}

func TestRandomStructsMatchValuesPrintedByC(t *testing.T) {
	structs := need.LongOr(200, 20)
	everyday := []string{"gcc -gdwarf-5", "gcc -gdwarf-3 -gstrict-dwarf", "g++ -gdwarf-4 -O2 -gz"}
	for seed, options := range []string{
		"gcc -gdwarf-5", "gcc -gdwarf-4", "gcc -gdwarf-5 -O2 -flto", "gcc -gdwarf-4 -gz -O2", "gcc -gdwarf-3 -gstrict-dwarf",
		"g++ -gdwarf-5", "g++ -gdwarf-4 -O2 -gz", "g++ -gdwarf-5 -O2 -flto",
	} {
		t.Run(options, func(t *testing.T) {
			if !slices.Contains(everyday, options) {
				need.Long(t)
			}
			t.Parallel()
			args := strings.Fields(options)
			need.Program(t, args[0], args[0])
			m := &structMaker{Rand: rand.New(rand.NewPCG(uint64(seed), 19)), cpp: args[0] == "g++"}
			if m.cpp {
				m.types.WriteString("struct Empty {};\n")
			}
			for i := range structs {
				m.add(i)
			}
			program := built(t, args, frameOfC+m.types.String()+"int main(void) {\n"+m.prints.String()+"return 0; }\n")
			out, err := exec.Command(program).Output()
			if err != nil {
				t.Fatal(err)
			}
			values := compare(t, program, string(out))
			if values < 5*structs {
				t.Errorf("got only %d compared values", values)
			}
			t.Logf("%d structs, %d values", structs, values)
		})
	}
}

// built compiles the text of a C or C++ program and returns the path of the result.
func built(t *testing.T, compiler []string, text string) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "a.c")
	if compiler[0] == "g++" {
		source = filepath.Join(dir, "a.cc")
	}
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "a")
	out, err := exec.Command(compiler[0], append(compiler[1:], "-w", "-o", program, source)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", compiler, err, out[:min(len(out), 2000)])
	}
	return program
}

// compare compares the values that a program printed with those that its layouts decode from its bytes.
// It returns the number of compared values.
func compare(t *testing.T, program, out string) (values int) {
	t.Helper()
	p, err := Open(program)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]layout.Value
	var at map[string]int
	name := ""
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if words[0] == "S" {
			name = "S" + words[1]
			l, _, err := p.Layout(name)
			if err != nil {
				t.Fatal(err)
			}
			frame, _ := hex.DecodeString(words[2])
			v, err := l.Decode(frame)
			if err != nil {
				t.Fatal(err)
			}
			all, at = map[string]layout.Value{}, map[string]int{}
			flattened(all, "", v)
			offsets(at, "", 0, l.Fields)
			continue
		}
		if words[0] == "O" {
			if got, ok := at[words[1]]; !ok || strconv.Itoa(got) != words[2] {
				t.Errorf("%s: offset of %s: got %d, want %s by offsetof", name, words[1], got, words[2])
			}
			continue
		}
		values++
		if v, ok := all[words[1]]; !ok {
			t.Errorf("%s: the layout lacks %s", name, words[1])
		} else if !same(v, words[2]) {
			t.Errorf("%s: %s: got %s, want %s as C prints (%+v)", name, words[1], v.Text(), words[2], *v.Field())
		}
		if t.Failed() && values > 40 {
			return values
		}
	}
	return values
}

func TestDamagedFilesGiveErrors(t *testing.T) {
	for _, options := range []string{"gcc -g -c -O0", "gcc -gdwarf-4 -gz -c -O2", "g++ -gdwarf-5 -gz -O2", "g++ -gdwarf-3 -O0"} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			compiler := strings.Fields(options)
			need.Program(t, compiler[0], compiler[0])
			whole, err := os.ReadFile(built(t, compiler, frameOfC+"struct imu { double x[3]; enum small e; struct pair p; int b: 3; } imu;\nint main() { return 0; }\n"))
			if err != nil {
				t.Fatal(err)
			}
			if kinds := errorsOf(t, whole); len(kinds) < 10 {
				t.Errorf("got only %d kinds of errors: %v", len(kinds), kinds)
			}
		})
	}
}

// The last number of the debug information may be cut off in the middle.
func TestUnterminatedNumberIsAnError(t *testing.T) {
	path := built(t, []string{"gcc", "-g", "-c"}, "struct imu { double x[3]; } imu;\n")
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info := file.Section(".debug_info")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 12 {
		end := info.Offset + info.FileSize
		copy(whole[end-uint64(n):end], bytes.Repeat([]byte{0xff}, n))
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); (err != nil) != (n > 0) || n > 0 && !strings.Contains(err.Error(), "this file is damaged") {
			t.Errorf("file of %d bytes: got %v, want an error about damage", n, err)
		}
	}
}

// A line table with a file count larger than its number of files is not passed to debug/dwarf, which would allocate a list of
// that length.
func TestLineTableChecksFileCount(t *testing.T) {
	const before = "\x40\x00\x00\x00\x05\x00\x08\x00\x30\x00\x00\x00\x01\x01\x01\xfb\x0e\x02\x01" // version 5, one opcode
	for text, want := range map[string]bool{
		before + "\x01\x01\x08\x01a\x00" + "\x02\x01\x08\x02\x0b\x01b\x00\x00":                        true,
		before + "\x01\x01\x1f\x01\x00\x00\x00\x00" + "\x01\x01\x1f\x01\x00\x00\x00\x00":              true,
		before + "\x01\x01\x08\x02a\x00" + "\x02\x01\x08\x02\x0b\x01b\x00\x00":                        false,
		before + "\x01\x01\x08\x01a\x00" + "\x01\x01\x08\xff\xff\xff\xff\x0fb\x00":                    false,
		before + "\x00\xff\xff\xff\xff\x0f" + "\x01\x01\x08\x01b\x00":                                 false,
		before + "\x01\x01\x77\x01a\x00" + "\x01\x01\x08\x01b\x00":                                    false,
		before + "\x01\x01\x09\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + "\x01\x01\x08\x01b\x00": false,
		before + "\x01\x01": false, before: false, "": false, "\xff\xff\xff\xff": false,
		strings.Replace(before, "\x05", "\x04", 1): true,
	} {
		if got := countsFit([]byte(text)); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// errorsOf damages the program whole in many ways, opens each copy, and returns the number of times each error occurred.
func errorsOf(t *testing.T, whole []byte) map[string]int {
	t.Helper()
	path, random := filepath.Join(t.TempDir(), "damaged"), rand.New(rand.NewPCG(1, 19))
	kinds := map[string]int{}
	for i := range need.LongOr(600, 120) {
		file := bytes.Clone(whole)
		switch i % 6 {
		case 0:
			file = file[:random.IntN(len(file))]
		case 1:
			file[random.IntN(64)] ^= byte(1 + random.IntN(255)) // header
		case 2:
			for range 20 {
				file[random.IntN(len(file))] ^= byte(1 + random.IntN(255))
			}
		case 3:
			at := random.IntN(len(file) - 64)
			copy(file[at:], bytes.Repeat([]byte{0xff}, 64))
		case 4:
			at := random.IntN(len(file) - 300)
			copy(file[at:], make([]byte, 300))
		case 5: // section headers
			at := len(file) - 1 - random.IntN(1500)
			file[at] ^= byte(1 + random.IntN(255))
		}
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		p, err := Open(path)
		if err == nil {
			_, _, _ = p.Structs()
			_, _, err = p.Layout("imu")
		}
		if err != nil {
			kinds[err.Error()]++
		}
	}
	return kinds
}
