package debuginfo

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"encoding/binary"
	"path/filepath"
)

// source returns the name of the file that declares a struct. If the line table, which names the
// files, cannot be read, source returns the name of the compiled file.
func (p *Program) source(s found) (name string) {
	if s.unit == nil {
		return ""
	}
	defer func() {
		if recover() != nil { // a name is not worth an error
			name = ""
		}
		unit, _ := s.unit.Val(dwarf.AttrName).(string)
		name = plain(filepath.Base(cmp.Or(name, unit)))
	}()
	at, ok := s.unit.Val(dwarf.AttrStmtList).(int64)
	if !ok || at < 0 || at > int64(len(p.lines)) || !countsFit(p.lines[at:]) {
		return ""
	}
	lines, err := p.data.LineReader(s.unit)
	if err != nil || lines == nil {
		return ""
	}
	files := lines.Files()
	if s.file < 0 || s.file >= int64(len(files)) || files[s.file] == nil {
		return ""
	}
	return files[s.file].Name
}

// countsFit reports whether a line table has as many directories and files as its counts state.
// debug/dwarf does not check the counts, and would allocate memory for them.
func countsFit(table []byte) bool {
	const opcodes = 17 // where the number of opcodes stands, in tables of version 5
	if len(table) <= opcodes || binary.LittleEndian.Uint32(table) >= 0xfffffff0 {
		return false
	}
	if binary.LittleEndian.Uint16(table[4:]) < 5 {
		return true // these lists end with an empty name
	}
	rest := &cursor{table[opcodes:]}
	rest.skip(uint64(max(1, table[opcodes])))
	for range 2 {
		forms := make([]uint64, rest.byte())
		for i := range forms {
			rest.number()
			forms[i] = rest.number()
		}
		count := rest.number()
		if count > 0 && len(forms) == 0 {
			return false
		}
		for ; count > 0 && rest.rest != nil; count-- {
			for _, form := range forms {
				rest.form(form)
			}
		}
	}
	return rest.rest != nil
}

// cursor reads a table from its beginning. What is left is nil once the table ended too early.
type cursor struct{ rest []byte }

func (c *cursor) skip(n uint64) {
	if n > uint64(len(c.rest)) {
		c.rest = nil
	} else {
		c.rest = c.rest[n:]
	}
}

func (c *cursor) byte() (b byte) {
	if len(c.rest) > 0 {
		b = c.rest[0]
	}
	c.skip(1)
	return b
}

// number reads an integer of changing length.
func (c *cursor) number() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.rest = nil
		return 0
	}
	c.skip(uint64(n))
	return v
}

// form skips a value of a form that the standard names.
func (c *cursor) form(form uint64) {
	sizes := map[uint64]uint64{0x0b: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1e: 16, 0x0e: 4, 0x1f: 4} // data, references to text
	switch size, ok := sizes[form]; {
	case ok:
		c.skip(size)
	case form == 0x08:
		_, c.rest, _ = bytes.Cut(c.rest, []byte{0}) // text; nil when it does not end
	case form == 0x09: // bytes
		c.skip(c.number())
	case form == 0x0f:
		c.number()
	default:
		c.rest = nil
	}
}
