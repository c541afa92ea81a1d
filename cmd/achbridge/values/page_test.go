package values

import (
	"slices"
	"testing"

	"achbridge/bridge/layout"
)

func TestPageShowsValuesOrReason(t *testing.T) {
	l := &layout.Layout{Name: "imu", Size: 4, Fields: []layout.Field{
		{Name: "n", Type: layout.Uint16, Unit: "V"}, {Name: "text", Type: layout.Char, Offset: 2, Count: []int{2}},
	}}
	for frame, want := range map[string][]string{
		"\x07\x00\x1b<": {"values  imu, 4 bytes", "  n:     7 V", `  text:  "\x1b<"`},
		"\x07":          {"values  1 bytes do not fit imu, which has 4"},
	} {
		if got := Page(l, []byte(frame)); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", frame, got, want)
		}
	}
}
