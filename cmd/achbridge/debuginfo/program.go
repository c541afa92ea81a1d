package debuginfo

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Program is the debug information of a program or object.
type Program struct {
	path    string
	data    *dwarf.Data
	lines   []byte // the tables of lines
	structs []found
}

// found is one struct or union with a name.
type found struct {
	name  string // with its namespaces, as in robot::v1::Imu
	short string // without inline namespaces, as in robot::Imu
	alias bool   // name is a typedef of a struct that has a name of its own
	at    dwarf.Offset
	size  int
	unit  *dwarf.Entry
	file  int64 // where it is declared, in the unit's list of files
}

// Struct is a struct or union that a program has.
type Struct struct {
	Name   string
	Size   int
	Source string // the file that declares it; "" when that is not known
}

// Open reads the debug information of a file. The error says why there is none that can be
// read, and how to build the program so that there is.
func Open(path string) (p *Program, err error) {
	defer damaged(path, &err)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	file, err := elf.NewFile(f)
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, pathErr
	} else if err != nil {
		return nil, fmt.Errorf("%s: no ELF program or object, or damaged: %w", path, err)
	}
	defer file.Close()
	if size := unpackedSize(file); size > maxUnpacked {
		return nil, fmt.Errorf("%s: its packed sections have more than %d MiB when they are unpacked, which is the limit; use the object that has the struct",
			path, maxUnpacked>>20)
	}
	if why := unreadable(file); why != "" {
		return nil, fmt.Errorf("%s: %s", path, why)
	}
	p = &Program{path: path}
	if p.data, err = file.DWARF(); err != nil {
		return nil, fmt.Errorf("%s: this file is damaged: %w", path, err)
	}
	if lines := file.Section(".debug_line"); lines != nil {
		p.lines, _ = lines.Data() // without line tables the source of a struct is its compilation unit
	}
	return p, p.index()
}

// maxUnpacked limits the total size of all compressed sections after decompression. 6 MB of compressed zeros become 6 GB.
const maxUnpacked = 1 << 30

// unpackedSize returns the total size after decompression that the compressed sections state in their headers. If that is above
// maxUnpacked, the result is only known to be above maxUnpacked as well. It decompresses nothing.
func unpackedSize(file *elf.File) (sum uint64) {
	for _, s := range file.Sections {
		if strings.HasPrefix(s.Name, ".zdebug") {
			s.Open() // sets Size, until then the compressed size, to the size after decompression
		} else if s.Flags&elf.SHF_COMPRESSED == 0 {
			continue
		}
		sum += min(s.Size, maxUnpacked+1)
	}
	return sum
}

// damaged makes an error of a panic of the reader.
func damaged(path string, err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("%s: this file is damaged: %v", path, cause)
	}
}

// unreadable says why a file's debug information cannot be used, "" when it may be.
func unreadable(file *elf.File) string {
	info := 0 // an object has a section for each type unit
	for _, s := range file.Sections {
		if s.Name == ".debug_info" {
			info++
		}
	}
	has := func(name string) bool { return file.Section(name) != nil }
	switch {
	case file.Data != elf.ELFDATA2LSB:
		return "big-endian: frames are read as little-endian"
	case has(".gnu_debugaltlink"):
		return "part of its debug information is in a file that dwz made; use the program as it was before dwz"
	case has(".debug_types"), info > 1:
		return "type units are not read; build without -fdebug-types-section"
	case has(".debug_info"), has(".zdebug_info"):
		return ""
	case has(".gnu.debuglto_.debug_info"):
		return "an object of -flto; use the program that is linked of it"
	case has(".gnu_debuglink"):
		text, _ := file.Section(".gnu_debuglink").Data()
		name, _, _ := bytes.Cut(text, []byte{0})
		return fmt.Sprintf("its debug information is in another file: %q", name)
	}
	return "no debug information; build with -g, and do not strip"
}

// scope is an entry of the debug information whose children are being read.
type scope struct {
	name     string
	isInline bool // an inline namespace, which names of its members may leave out
}

// index finds all structs and unions with a name.
func (p *Program) index() error {
	r := p.data.Reader()
	var unit *dwarf.Entry
	var scopes []scope
	padding := 0 // ends of children that nothing began
	for {
		e, err := r.Next()
		if err != nil {
			return fmt.Errorf("%s: this file is damaged: %w", p.path, err)
		}
		if e == nil {
			return nil
		}
		if e.Tag == 0 {
			// An entry whose number does not end is read as one that ends children, for ever.
			if len(scopes) > 0 {
				scopes = scopes[:len(scopes)-1]
			} else if padding++; padding > maxPadding {
				return fmt.Errorf("%s: this file is damaged: its debug information does not end", p.path)
			}
			continue
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		switch e.Tag {
		case dwarf.TagCompileUnit, dwarf.TagSkeletonUnit:
			if unit, scopes, padding = e, nil, 0; e.Val(attrDwoName) != nil || e.Val(attrGNUDwoName) != nil || e.Tag == dwarf.TagSkeletonUnit {
				return fmt.Errorf("%s: split: its debug information is in .dwo files; build without -gsplit-dwarf", p.path)
			}
			name = ""
		case dwarf.TagTypeUnit:
			return fmt.Errorf("%s: type units are not read; build without -fdebug-types-section", p.path)
		case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType, dwarf.TagTypedef:
			p.add(e, name, scopes, unit)
		case dwarf.TagNamespace:
		default:
			skip(r, e)
			continue
		}
		if e.Children {
			scopes = append(scopes, scope{name, e.Tag == dwarf.TagNamespace && e.Val(dwarf.AttrExportSymbols) != nil})
		}
	}
}

// maxPadding is how many bytes of zeros may fill up a unit.
const maxPadding = 64

const (
	attrDwoName    dwarf.Attr = 0x76
	attrGNUDwoName dwarf.Attr = 0x2130
)

func (p *Program) add(e *dwarf.Entry, name string, scopes []scope, unit *dwarf.Entry) {
	if name == "" || e.Val(dwarf.AttrDeclaration) != nil {
		return
	}
	of := e
	if e.Tag == dwarf.TagTypedef {
		if of = p.named(e); of == nil {
			return
		}
	}
	size, _ := of.Val(dwarf.AttrByteSize).(int64)
	file, _ := e.Val(dwarf.AttrDeclFile).(int64)
	if size < 1 || size > 1<<30 {
		return
	}
	var full, short []string
	for _, s := range append(slices.Clone(scopes), scope{name: name}) {
		if s.name != "" {
			full = append(full, s.name)
		}
		if s.name != "" && !s.isInline {
			short = append(short, s.name)
		}
	}
	own, _ := of.Val(dwarf.AttrName).(string)
	p.structs = append(p.structs, found{strings.Join(full, "::"), strings.Join(short, "::"), of != e && own != "", of.Offset, int(size), unit, file})
}

// named returns the struct or union that a typedef names, directly or through other typedefs, nil if it names another type.
func (p *Program) named(e *dwarf.Entry) *dwarf.Entry {
	r := p.data.Reader()
	for range maxDepth {
		at, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
		if !ok {
			return nil
		}
		r.Seek(at)
		target, err := r.Next()
		if err != nil || target == nil {
			return nil
		}
		switch e = target; e.Tag {
		case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType:
			return e
		case dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagVolatileType:
		default:
			return nil
		}
	}
	return nil
}

// Structs returns the structs and unions of a program, sorted by name and without duplicates. It leaves out typedefs of structs that
// have names of their own. Layout accepts these typedefs as names too. It also omits the messages and descriptors of protobuf-c, which
// are never in frames; protobufC is the number of omitted messages.
func (p *Program) Structs() (list []Struct, protobufC int, err error) {
	defer damaged(p.path, &err)
	for _, s := range p.structs {
		switch {
		case s.alias, strings.HasPrefix(s.name, "ProtobufC"):
			continue
		case p.isProtobufC(s):
			protobufC++
			continue
		}
		list = append(list, Struct{plain(s.name), s.size, p.source(s)})
	}
	slices.SortFunc(list, func(a, b Struct) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), a.Size-b.Size, strings.Compare(a.Source, b.Source))
	})
	return slices.CompactFunc(list, func(a, b Struct) bool { return a.Name == b.Name && a.Size == b.Size }), protobufC, nil
}

// protobufCMessage is the type of the first member, base, of the messages of protobuf-c.
const protobufCMessage = "ProtobufCMessage"

// isProtobufC reports whether a struct is a message that the compiler of protobuf-c generated.
func (p *Program) isProtobufC(s found) bool {
	r := p.data.Reader()
	r.Seek(s.at)
	e, err := r.Next()
	if err != nil || e == nil || !e.Children {
		return false
	}
	first, err := r.Next()
	if err != nil || first == nil || first.Val(dwarf.AttrName) != "base" {
		return false
	}
	at, ok := first.Val(dwarf.AttrType).(dwarf.Offset)
	if !ok {
		return false
	}
	r.Seek(at)
	of, err := r.Next()
	return err == nil && of != nil && of.Val(dwarf.AttrName) == protobufCMessage
}

// plain returns a text of the file with unprintable characters escaped.
func plain(text string) string {
	quoted := strconv.QuoteToASCII(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// called returns the structs and unions with a name, which may lack namespaces. A struct's own name comes before a typedef of that name.
func (p *Program) called(name string) (list []found) {
	name = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(name, "struct "), "class "), "union ")
	whole := func(of string) bool { return of == name }
	part := func(of string) bool { return strings.HasSuffix(of, "::"+name) }
	for _, fits := range []func(string) bool{whole, part} {
		for _, alias := range []bool{false, true} {
			for _, s := range p.structs {
				if s.alias == alias && (fits(s.name) || fits(s.short)) {
					list = append(list, s)
				}
			}
			if list != nil {
				return list
			}
		}
	}
	return nil
}
