package diagnose

import (
	"cmp"
	"slices"

	"achbridge/bridge/status"
)

// Attended is a channel that needs a look: it is not live, it is over its budget, this host cannot
// read it, or its frames do not match its layout.
type Attended struct {
	Channel string // a mirror's name; CHANNEL > HOST for a channel that is sent or pushed
	Health  status.Health
	AgeMs   *float64 // a mirror's present age; nil if unknown
	Note    string   // the problem
}

// LastingMirrors returns the mirrors without temporary ones.
func LastingMirrors(s status.Report) []status.Mirror {
	return slices.DeleteFunc(slices.Clone(s.Mirrors), func(m status.Mirror) bool { return m.Temporary })
}

// Attention returns the channels that need a look, the worst first. Temporary mirrors are omitted.
func Attention(s status.Report) (list []Attended) {
	isMirror := map[string]bool{}
	for _, m := range s.Mirrors {
		isMirror[m.Name] = true
		if !m.Temporary && (m.Health() != status.HealthLive || UsedOf(m) > 1 || m.Mismatch != nil) {
			list = append(list, Attended{m.Name, m.Health(), m.AgeMs, cmp.Or(NoteOf(m), "no answer yet")})
		}
	}
	for _, e := range s.Exports {
		if h := e.Health(); h != status.HealthLive {
			list = append(list, Attended{Channel: e.Channel + " > " + e.Peer, Health: h, Note: cmp.Or(e.Reason, "see achbridge why on "+e.Peer)})
		}
	}
	for _, p := range s.Pushes {
		if p.State != status.PushAccepted {
			list = append(list, Attended{Channel: p.Channel + " > " + p.Host, Health: status.Health(p.State), Note: cmp.Or(p.Reason, "no answer yet")})
		}
	}
	for _, c := range s.Locals {
		switch isByRule := c.Cause == "" || c.Cause == status.CauseRule || c.Cause == status.CauseExportRule; {
		case isMirror[c.Channel]:
		case !isByRule:
			list = append(list, Attended{Channel: c.Channel, Health: status.HealthRefused, Note: c.Reason})
		case c.Mismatch != nil:
			list = append(list, Attended{Channel: c.Channel, Health: status.HealthLive, Note: c.Mismatch.Why})
		}
	}
	slices.SortStableFunc(list, func(a, b Attended) int {
		return cmp.Or(-cmp.Compare(a.Health.Rank(), b.Health.Rank()), cmp.Compare(a.Channel, b.Channel))
	})
	return list
}
