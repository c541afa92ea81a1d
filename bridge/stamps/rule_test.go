package stamps

import (
	"strings"
	"testing"

	"achbridge/bridge/layout"
)

func TestParseRule(t *testing.T) {
	for text, want := range map[string]Rule{
		"sns": SNS, "somatic": Somatic, "hubo": Hubo,
		"until:t":                                "until:t",
		" duration : d ;time:s + n":              "time:s+n;duration:d",
		"time:15.2.1+15.2.2;until:15.3.1+15.3.2": "time:15.2.1+15.2.2;until:15.3.1+15.3.2",
	} {
		if got, err := ParseRule(text); got != want || err != nil {
			t.Errorf("ParseRule(%q) = %q, %v, want %q", text, got, err, want)
		}
		if again, err := ParseRule(string(want)); again != want || err != nil {
			t.Errorf("ParseRule(%q) = %q, %v, want it unchanged", want, again, err)
		}
	}
	for text, want := range map[string]string{
		"":                                  "sns, somatic",
		"snss":                              "sns, somatic",
		"duration:d":                        "time or until",
		"time:a;duration:b;until:c":         "one of them",
		"until:a;duration:b":                "one of them",
		"time:a;time:b":                     "twice",
		"time:a;until:a":                    "twice",
		"time:1.2;until:1.2.3":              "twice",
		"time:a+b+c":                        "two fields",
		"time:a+":                           "two fields",
		"time:":                             "a field",
		"when:a":                            "time, duration or until",
		"time:1.1+2.2":                      "different messages",
		"time:1.a":                          "field numbers",
		"time:0":                            "field numbers",
		"time:536870912":                    "field numbers",
		"time:a;until:1":                    "name of a field",
		"time:a..b":                         "name of a field",
		"time:1.1.1.1.1.1.1.1.1":            "levels",
		"time:" + strings.Repeat("a", 2000): "longer",
	} {
		if got, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseRule(%q) = %q, %v, want an error with %q", text, got, err, want)
		}
	}
}

func TestCompileRefusesFields(t *testing.T) {
	l := &layout.Layout{Name: "l", Size: 64, Fields: []layout.Field{
		{Name: "a", Type: layout.Int64}, {Name: "short", Offset: 8, Type: layout.Int32}, {Name: "f", Offset: 12, Type: layout.Float},
		{Name: "list", Offset: 16, Type: layout.Int64, Count: []int{2}}, {Name: "scaled", Offset: 32, Type: layout.Int64, Scale: 2},
		{Name: "d", Offset: 40, Type: layout.Double}, {Name: "bits", Offset: 48, Type: layout.Int64, Bits: 3},
	}}
	for _, r := range []Rule{"time:nothing", "time:short", "time:f", "time:list", "time:scaled", "time:bits", "time:a.b", "time:d+a", "time:a+d"} {
		if _, err := r.Compile(l); err == nil {
			t.Errorf("Compile(%q) accepts the field", r)
		}
	}
	if _, err := Rule("time:a").Compile(nil); err == nil {
		t.Error("Compile without a layout accepts names")
	}
}
