package stamps

import (
	"testing"

	"achbridge/bridge/layout"
)

func TestGuessNamesProbableStamps(t *testing.T) {
	pair := []layout.Field{{Name: "sec", Type: layout.Int32}, {Name: "nanosec", Type: layout.Uint32, Offset: 4}}
	inside := func(name string, fields []layout.Field) []layout.Field {
		return []layout.Field{{Name: name, Type: layout.Struct, Size: 8, Fields: fields}, {Name: "v", Type: layout.Double, Offset: 8}}
	}
	sns := []layout.Field{{Name: "sec", Type: layout.Int64}, {Name: "dur_nsec", Type: layout.Int64, Offset: 8}, {Name: "nsec", Type: layout.Uint32, Offset: 16}}
	for _, c := range []struct {
		name   string
		fields []layout.Field
		want   Rule
	}{
		{"header of sns", []layout.Field{{Name: "header", Type: layout.Struct, Size: 24, Fields: sns}}, SNS},
		{"fields of sns", sns, SNS},
		{"pair", inside("stamp", pair), "time:stamp.sec+stamp.nanosec"},
		{"pair of an expiry", inside("until", pair), "until:until.sec+until.nanosec"},
		{"nanoseconds", []layout.Field{{Name: "stamp_ns", Type: layout.Int64}}, "time:stamp_ns"},
		{"seconds and expiry", []layout.Field{{Name: "Time", Type: layout.Double}, {Name: "expiry", Type: layout.Double, Offset: 8}}, "time:Time;until:expiry"},
		{"another word", []layout.Field{{Name: "runtime", Type: layout.Double}, {Name: "times", Type: layout.Int64, Offset: 8}}, ""},
		{"another type", []layout.Field{{Name: "time", Type: layout.Int32}}, ""},
		{"array", []layout.Field{{Name: "time", Type: layout.Double, Count: []int{2}}}, ""},
		{"seconds only", []layout.Field{{Name: "sec", Type: layout.Int64}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Guess(&layout.Layout{Name: "goal", Size: 64, Fields: c.fields}); got != c.want {
				t.Errorf("Guess = %q, want %q", got, c.want)
			}
		})
	}
	if got := Guess(nil); got != "" {
		t.Errorf("Guess(nil) = %q, want none", got)
	}
}

func TestVariantsHaveStampsAtTheSamePlace(t *testing.T) {
	layoutOf := func(name string, at int) layout.Layout {
		return layout.Layout{Name: name, Size: 16 + at, Fields: []layout.Field{{Name: "stamp", Type: layout.Int64, Offset: at}}}
	}
	both := func(a, b layout.Layout) *layout.Layout {
		return &layout.Layout{Name: "both", Variants: []layout.Variant{{Layout: a}, {Layout: b}}}
	}
	same, apart := both(layoutOf("a", 0), layoutOf("b", 0)), both(layoutOf("a", 0), layoutOf("b", 8))
	same.Variants[1].Layout.Size = 24
	if got := Guess(same); got != "time:stamp" {
		t.Errorf("Guess = %q, want time:stamp", got)
	}
	if got := Guess(apart); got != "" {
		t.Errorf("fields at other offsets: Guess = %q, want none", got)
	}
	if _, err := Rule("time:stamp").Compile(apart); err == nil || err.Error() != "the fields have other offsets in b than in a" {
		t.Errorf("Compile: got %v", err)
	}
	s, err := Rule("time:stamp").Compile(same)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{16, 24} {
		if _, _, err := s.Shift(nil, make([]byte, size), By{}); err != nil {
			t.Errorf("%d bytes: got %v", size, err)
		}
	}
	if _, _, err := s.Shift(nil, make([]byte, 20), By{}); err != ErrSize {
		t.Errorf("20 bytes: got %v, want %v", err, ErrSize)
	}
}
