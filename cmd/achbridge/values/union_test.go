package values

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/layout"
)

func TestMembersOfAUnionAreMarked(t *testing.T) {
	u := layout.Field{Name: "u", Type: layout.Struct, Size: 4, Offset: 4, Union: true, Fields: []layout.Field{{Name: "i", Type: layout.Int32}}}
	l := &layout.Layout{Name: "T", Size: 8, Fields: []layout.Field{{Name: "kind", Type: layout.Int32}, u}}
	for _, fields := range [][]string{nil, {"u"}, {"u.i"}} {
		p := Printer{Layout: l, Fields: fields}
		text, err := p.Frame(time.Time{}, []byte("\x00\x00\x00\x00\x00\x00\x80\x3f"))
		if want := "1065353216 (union)\n"; err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "kind:  0 (union)") {
			t.Errorf("%v: got %s, %v, want %s", fields, text, err, want)
		}
	}
}
