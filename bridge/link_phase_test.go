package bridge

import (
	"slices"
	"testing"
)

// TestLinkPhases tries every transition between two phases of a link.
func TestLinkPhases(t *testing.T) {
	follows := map[linkPhase][]linkPhase{
		linkStandby: {linkLive, linkEnded},
		linkLive:    {linkSilent, linkEnded},
		linkSilent:  {linkLive, linkEnded},
		linkEnded:   nil, // nothing brings a link back
	}
	for from := linkStandby; from <= linkEnded; from++ {
		for to := linkStandby; to <= linkEnded; to++ {
			want := from == to || slices.Contains(follows[from], to)
			if got := linkTransitions.Allows(from, to); got != want {
				t.Errorf("from phase %d to %d: allowed is %v, want %v", from, to, got, want)
			}
		}
	}
}
