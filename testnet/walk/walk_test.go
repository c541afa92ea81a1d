package walk

import (
	"fmt"
	"slices"
	"testing"
)

// failures is a test that counts how often it fails.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Helper() {}

func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

func TestPhaseCheckFindsWrongAndMissingTransitions(t *testing.T) {
	listed := map[int][]int{1: {2}, 2: {1}}
	for _, c := range []struct {
		name  string
		goes  []int // phases after each step, from 1 on
		wants []int
		fails []string
	}{
		{"all", []int{2, 2, 1}, []int{2, 2, 1}, nil},
		{"wrong end", []int{2, 1}, []int{2, 2}, []string{"step 1, in phase 2, ends in 1, want 2"}},
		{"not listed", []int{2, 1, 3}, []int{2, 1, 3}, []string{"step 2 goes from phase 1 to 3, which is not listed"}},
		{"missing", []int{2}, []int{2}, []string{"no step goes from phase 2 to 1, which is listed"}},
	} {
		at, f := 1, &failures{}
		var steps []Step[int]
		for i, to := range c.goes {
			steps = append(steps, Step[int]{func() { at = to }, c.wants[i]})
		}
		if Phases(f, listed, func() int { return at }, steps); !slices.Equal(f.texts, c.fails) {
			t.Errorf("%s: got %q, want %q", c.name, f.texts, c.fails)
		}
	}
}
