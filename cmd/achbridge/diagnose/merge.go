package diagnose

import (
	"cmp"
	"fmt"

	"achbridge/bridge/status"
)

// mergeFinding returns the finding about m, the output of a merge. Its evidence has the state of each host's mirror. Its cause is that
// of the mirror with the worst health.
func (s *Snapshot) mergeFinding(m status.Mirror) Finding {
	f := Finding{Cause: Well, Text: m.Name + ": " + m.Reason}
	var worst *status.Mirror
	for _, x := range s.After.Mirrors {
		if x.Into != m.Name {
			continue
		}
		text := fmt.Sprintf("%s/%s: %s, %d frames put", x.Host, x.Channel, x.Health(), x.Delivered+x.LateKept)
		if x.Reason != "" {
			text += "; " + x.Reason
		}
		f.Evidence = append(f.Evidence, text)
		if x.Health() != status.HealthLive && (worst == nil || x.Health().Rank() > worst.Health().Rank()) {
			worst = &x
		}
	}
	switch {
	case m.State == status.MirrorForeignWriter:
		f = foreignWriterFinding(f, m)
	case worst != nil:
		f.Cause, f.Fix = cmp.Or(worst.Cause, status.CauseOther), "achbridge why "+worst.Host+"/"+worst.Channel
	case m.State != status.MirrorLive:
		f.Cause = cmp.Or(m.Cause, status.CauseOther)
		f.Fix = "achbridge ls shows which hosts offer the channel"
	}
	return f
}

// foreignWriterFinding returns f with the cause, text and fix for a mirror m into which another program writes.
func foreignWriterFinding(f Finding, m status.Mirror) Finding {
	f.Cause, f.Text = cmp.Or(m.Cause, status.CauseOther), m.Name+": "+m.Reason
	f.Fix = fmt.Sprintf("end the other program: fuser -v /dev/shm/achshm-%s, as root, names the processes that have it open", m.Name)
	return f
}
