package config

import "testing"

func TestParseWatchBudget(t *testing.T) {
	for text, want := range map[string]float64{"5%": 0.05, "0.5%": 0.005, "100%": 1, "low": 0} {
		if b, err := parseWatch(text); err != nil || b != want || watchText(b) != text {
			t.Errorf("%s: got %v (%s), %v; want %v", text, b, watchText(b), err, want)
		}
	}
	for _, bad := range []string{"", "5", "0%", "-1%", "101%", "NaN%", "high"} {
		if b, err := parseWatch(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, b)
		}
	}
}
