package discovery

import (
	"strings"
	"testing"
)

func TestHostNameIsValidAchName(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"robot":                 "robot",
		"robot.lab.example":     "robot.lab.example",
		"my robot":              "my-robot",
		".hidden":               "-hidden",
		"krång":                 "kr--ng",
		"a/b\x00c\n":            "a-b-c-",
		"ROBOT_1":               "ROBOT_1",
		`back\slash`:            "back-slash",
		strings.Repeat("x", 63): strings.Repeat("x", 63),
	} {
		if got := HostName(in); got != want {
			t.Errorf("got %q for %q, want %q", got, in, want)
		}
	}
}

func TestLongHostNamesStayDistinct(t *testing.T) {
	a, b := HostName(strings.Repeat("x", 70)+"a"), HostName(strings.Repeat("x", 70)+"b")
	if len(a) != maxName || len(b) != maxName || a == b {
		t.Errorf("got %q and %q, want two names of %d bytes", a, b, maxName)
	}
}

func FuzzHostName(f *testing.F) {
	f.Add("robot.lab")
	f.Fuzz(func(t *testing.T, in string) {
		got := HostName(in)
		if in != "" && checkName(got) != nil {
			t.Fatalf("got %q for %q, not an Ach name", got, in)
		}
		if HostName(got) != got {
			t.Fatalf("got %q for its own result %q", HostName(got), got)
		}
		if got == "" {
			return
		}
		if back, err := fromLabel(label(got)); err != nil || back != got {
			t.Fatalf("got %q, %v back for %q", back, err, got)
		}
	})
}
