package debuginfo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLayoutFindsStructByEveryName(t *testing.T) {
	const c = "gcc -g"
	const cpp = "g++ -g"
	for _, x := range []struct{ options, text, name, want string }{
		{c, "typedef struct x { int a; } x_t; x_t v;", "x_t", "0 a int32 []"},
		{c, "struct x { int a; }; typedef const struct x base; typedef base x_t; x_t *v; struct x w;", "x_t", "0 a int32 []"},
		{c, "typedef struct { int a; } x_t; typedef x_t *other; x_t v; other w;", "x_t", "0 a int32 []"},
		{c, "typedef struct x { int a; } y; struct y { double b; } w; y v;", "y", "0 b double []"}, // a struct's own name goes before a typedef
		{c, "typedef union x { int a; float f; } x_t; x_t v;", "union x", "0 a int32 []"},
		{cpp, "namespace robot { inline namespace v1 { struct Imu { int a; } imu; } }", "robot::Imu", "0 a int32 []"},
		{cpp, "namespace robot { inline namespace v1 { struct Imu { int a; } imu; } }", "robot::v1::Imu", "0 a int32 []"},
		{cpp, "namespace a { namespace robot { inline namespace v1 { typedef struct Imu { int a; } Imu_t; Imu_t imu; } } }", "robot::Imu_t", "0 a int32 []"},
		{c, "struct T { int a; int mark[0]; int b; } t;", "T", "0 a int32 [], 4 b int32 []"},
		{c, "struct T { int begin[0]; struct { int b; char end[0]; double c; } in; int none[2][0]; int d; } t;", "T", "0 in struct [], 16 d int32 []"},
	} {
		p, err := Open(compiled(t, x.options, x.text))
		if err != nil {
			t.Fatal(err)
		}
		l, _, err := p.Layout(x.name)
		if err != nil {
			t.Errorf("%s: %s: %v", x.text, x.name, err)
			continue
		}
		var got []string
		for _, f := range l.Fields {
			got = append(got, fmt.Sprintf("%d %s %s %v", f.Offset, f.Name, f.Type, f.Count))
		}
		if text := strings.Join(got, ", "); text != x.want || l.Tail != "" {
			t.Errorf("%s: got %s, tail %q, want %s", x.text, text, l.Tail, x.want)
		}
	}
}

func TestStructsListsUnionsButNoTypedefs(t *testing.T) {
	p, err := Open(compiled(t, "gcc -g", "typedef struct x { int a; } x_t; union u { int a; double b; }; typedef struct { int b; } y_t; x_t x; union u u; y_t y;"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Struct{{"u", 8, "a.c"}, {"x", 4, "a.c"}, {"y_t", 4, "a.c"}}
	if got, _, _ := p.Structs(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if l, warnings, err := p.Layout("u"); err != nil || l.Size != 8 || len(warnings) != 1 || !strings.Contains(warnings[0], "u is a union") {
		t.Errorf("got %+v, %q, %v, want a warning", l, warnings, err)
	}
}
