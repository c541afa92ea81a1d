package values

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/layout"
)

// robot returns a layout and a frame with two legs of two angles each, a table of two rows, and a tail of joints.
func robot() (*layout.Layout, []byte) {
	u8 := func(name string, at int, count ...int) layout.Field {
		return layout.Field{Name: name, Type: layout.Uint8, Offset: at, Count: count}
	}
	legs := layout.Field{Name: "legs", Type: layout.Struct, Size: 3, Count: []int{2}, Fields: []layout.Field{u8("angle", 0, 2), u8("n", 2)}}
	path := layout.Field{Name: "path", Type: layout.Struct, Size: 2, Offset: 10, Fields: []layout.Field{u8("x", 0, 2)}}
	l := &layout.Layout{Name: "robot", Size: 10, Tail: "path", Fields: []layout.Field{legs, u8("table", 6, 2, 2), path}}
	return l, []byte{1, 2, 10, 3, 4, 20, 5, 6, 7, 8, 30, 31, 32, 33}
}

func TestIndexAppliesToPrecedingName(t *testing.T) {
	l, frame := robot()
	for path, want := range map[string]string{
		"legs[].angle[0]": "[1, 3]", "legs.angle[1]": "[2, 4]", "legs[1].angle[0]": "3", "legs[1].angle": "[3, 4]", "legs[].angle": "[[1, 2], [3, 4]]",
		"table[1]": "[7, 8]", "table[][1]": "[6, 8]", "table[1][0]": "7", "path[].x[1]": "[31, 33]", "path[1].x[0]": "32", "path[5].x[0]": "-",
		"legs[].angle[2]": "angle has 2 elements, from 0", "legs[].n[0]": "n is not an array", "legs[2]": "legs has 2 elements, from 0", "table[0][0][0]": "table is not an array",
	} {
		p := Printer{Layout: l, Fields: []string{path}}
		text, err := p.Frame(time.Time{}, frame)
		got := string(text)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(strings.TrimSpace(got), " "+want) {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if text, err := (&Printer{Layout: l, Fields: []string{"path[].x[0]"}}).Frame(time.Time{}, frame[:10]); err != nil || !strings.Contains(string(text), "[]") {
		t.Errorf("frame without joints: got %s, %v", text, err)
	}
}

// Each number and column has the name with which a user can select it.
func TestArrayElementsHaveDistinctNames(t *testing.T) {
	l, frame := robot()
	list, err := Numbers(l, frame, []string{"legs[].angle"})
	if err != nil || len(list) != 4 || list[1].Path != "legs[0].angle[1]" || list[1].X != 2 {
		t.Errorf("got %v, %v", list, err)
	}
	text, err := (&Printer{Layout: l, Fields: []string{"legs[].angle"}, Form: CSV}).Frame(time.Time{}, frame)
	if want := "%time,legs[0].angle[0],legs[0].angle[1],legs[1].angle[0],legs[1].angle[1]\n"; err != nil || !strings.HasPrefix(string(text), want) {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}
