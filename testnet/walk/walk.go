// Package walk walks tests through the phases of a state machine.
package walk

import (
	"slices"
	"testing"
)

// Step is what a test does, and the phase in which that ends.
type Step[P any] struct {
	Do   func()
	Want P
}

// Phases takes the steps. at returns the present phase. It fails if a step ends in another phase than it should, if a step takes
// a transition that is not listed, or if no step takes one that is. listed has the phases that may follow each phase.
func Phases[P comparable](t testing.TB, listed map[P][]P, at func() P, steps []Step[P]) {
	t.Helper()
	seen := make(map[P][]P)
	for i, s := range steps {
		from := at()
		s.Do()
		to := at()
		if to != s.Want {
			t.Errorf("step %d, in phase %v, ends in %v, want %v", i, from, to, s.Want)
		}
		if seen[from] = append(seen[from], to); from != to && !slices.Contains(listed[from], to) {
			t.Errorf("step %d goes from phase %v to %v, which is not listed", i, from, to)
		}
	}
	for from, all := range listed {
		for _, to := range all {
			if !slices.Contains(seen[from], to) {
				t.Errorf("no step goes from phase %v to %v, which is listed", from, to)
			}
		}
	}
}
