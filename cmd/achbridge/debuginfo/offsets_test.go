package debuginfo

import (
	"cmp"
	"fmt"
	"strings"

	"achbridge/bridge/layout"
)

// spot is the place of a field, or of one of its elements, in a frame.
type spot struct {
	path string // C expression, as in a.b[2]
	at   int
	dims []int // dimensions that path does not index yet
	each int   // size of one value, bytes
}

// offsets adds the offsets of all values in fields to all, by their C paths below path. The fields begin at byte at.
func offsets(all map[string]int, path string, at int, fields []layout.Field) {
	for i := range fields {
		f := &fields[i]
		p := spot{strings.TrimPrefix(path+"."+f.Name, "."), at + f.Offset, f.Count, cmp.Or(f.Type.OwnSize(), f.Size)}
		if last := len(p.dims) - 1; f.Type == layout.Char && last >= 0 {
			p.dims, p.each = p.dims[:last], p.each*p.dims[last]
		}
		p.add(all, f)
	}
}

func (p spot) add(all map[string]int, f *layout.Field) {
	switch {
	case len(p.dims) > 0:
		size := p.each
		for _, n := range p.dims[1:] {
			size *= n
		}
		for i := range p.dims[0] {
			spot{fmt.Sprintf("%s[%d]", p.path, i), p.at + i*size, p.dims[1:], p.each}.add(all, f)
		}
	case f.Type == layout.Struct:
		offsets(all, p.path, p.at, f.Fields)
	default:
		all[p.path] = p.at
	}
}
