package debuginfo

import (
	"bytes"
	"debug/dwarf"
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
)

// crafted returns debug information of one unit, which no compiler would write. An entry is the
// number of its abbreviation, then its attributes: 1 the unit, 2 a function, 3 a struct (name, size),
// 4 a base class (type). 0 ends the children of an entry.
func crafted(t *testing.T, entries []byte) *Program {
	t.Helper()
	abbreviations := []byte{
		1, 0x11, 1, 0, 0,
		2, 0x2e, 1, 0, 0,
		3, 0x13, 1, 0x03, 0x08, 0x0b, 0x0b, 0, 0, // DW_AT_name as string, DW_AT_byte_size as data1
		4, 0x1c, 0, 0x49, 0x13, 0, 0, // DW_AT_type as ref4
		0,
	}
	info := []byte{4, 0, 0, 0, 0, 0, 8}
	info = append(info, entries...)
	info = append(binary.LittleEndian.AppendUint32(nil, uint32(len(info))), info...)
	data, err := dwarf.New(abbreviations, nil, nil, info, nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Program{path: "crafted", data: data}
}

// unitHeader is the size of the header before the entries of a unit, in bytes.
const unitHeader = 11

func TestNestedEntriesDoNotOverflowStack(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	const deep = 100_000
	functions := bytes.Repeat([]byte{2}, deep)
	p := crafted(t, append(append([]byte{1}, functions...), make([]byte, deep+1)...))
	if err := p.index(); err != nil {
		t.Error(err)
	}
	inside := append([]byte{1, 3, 'T', 0, 1}, functions...)
	p = crafted(t, append(inside, make([]byte, deep+2)...))
	if err := p.index(); err != nil {
		t.Error(err)
	}
	if l, _, err := p.Layout("T"); err == nil {
		t.Errorf("got %v, want an error", l)
	}
}

// Each struct has the previous one as a base class twice, which doubles the number of fields.
func TestRepeatedBaseClassesAreLimited(t *testing.T) {
	entries := []byte{1}
	before := 0
	for i := range 15 {
		at := unitHeader + len(entries)
		entries = append(entries, fmt.Sprintf("\x03S%02d\x00\x01", i)...)
		for range 2 {
			if i > 0 {
				entries = binary.LittleEndian.AppendUint32(append(entries, 4), uint32(before))
			}
		}
		entries, before = append(entries, 0), at
	}
	p := crafted(t, append(entries, 0))
	if err := p.index(); err != nil {
		t.Fatal(err)
	}
	if l, _, err := p.Layout("S14"); err == nil || !strings.Contains(err.Error(), "more than 4096 fields") {
		t.Errorf("got %v, %v, want an error", l, err)
	}
}

func TestLongNamesWithSamePrefixStayDistinct(t *testing.T) {
	text := "struct T {"
	for n := 60; n < 80; n++ {
		text += " int " + strings.Repeat("_", n) + ";"
	}
	p, err := Open(compiled(t, "gcc -g", text+" } t;"))
	if err != nil {
		t.Fatal(err)
	}
	if l, _, err := p.Layout("T"); err != nil || len(l.Fields) != 20 {
		t.Errorf("got %+v, %v, want 20 fields", l, err)
	}
}
