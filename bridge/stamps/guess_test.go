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
