// Package phases lets a value change only along listed transitions:
//
//	type phase int
//
//	const (
//		waiting phase = iota // nobody feeds the mirror
//		live                 // a subscription feeds it
//	)
//
//	var transitions = phases.Transitions[phase]{
//		waiting: {live},
//		live:    {waiting},
//	}
//
//	transitions.Move(&m.phase, live)
//
// Move refuses any other transition: it is a fault of the program. Builds with the tag lockorder panic
// there. Without the tag the value keeps its phase, since a robot must go on.
package phases

import "slices"

// Transitions lists the phases that may follow each phase. A phase without an entry is the last one.
type Transitions[P comparable] map[P][]P

// Allows reports whether phase to may follow phase from. Each phase may follow itself.
func (t Transitions[P]) Allows(from, to P) bool {
	return from == to || slices.Contains(t[from], to)
}

// Move changes *at to phase to. It returns false, and changes nothing, if to may not follow *at.
func (t Transitions[P]) Move(at *P, to P) bool {
	if !t.Allows(*at, to) {
		refused(*at, to)
		return false
	}
	*at = to
	return true
}
