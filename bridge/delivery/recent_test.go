package delivery

import "testing"

func TestRecentDetectsDuplicates(t *testing.T) {
	var r Recent
	for _, step := range []struct {
		n    uint64
		want bool
	}{
		{5, true}, {5, false}, {7, true}, {6, true}, {6, false}, {5, false},
		{71, true}, {7, false}, {8, true}, {6, false}, // 6 is 65 before the newest: beyond the bitmap
		{1000, true}, {71, false}, {999, true}, {936, true}, {935, false},
	} {
		if got := r.Add(step.n); got != step.want {
			t.Fatalf("Add(%d): got %v, want %v", step.n, got, step.want)
		}
	}
}
