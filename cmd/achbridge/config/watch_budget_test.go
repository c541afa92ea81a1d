package config

import "testing"

func TestWatchBudgetIsAShareOfAProcessor(t *testing.T) {
	for text, want := range map[string]WatchBudget{"5%": 0.05, "0.5%": 0.005, "100%": 1, "low": 0} {
		var b WatchBudget
		if err := b.Set(text); err != nil || b != want || b.String() != text {
			t.Errorf("%s: got %v (%v), %v; want %v", text, float64(b), &b, err, float64(want))
		}
	}
	for _, bad := range []string{"", "5", "0%", "-1%", "101%", "NaN%", "high"} {
		b := WatchBudget(0.07)
		if err := b.Set(bad); err == nil || b != 0.07 {
			t.Errorf("%q: got %v, %v; want an error and no change", bad, float64(b), err)
		}
	}
}
