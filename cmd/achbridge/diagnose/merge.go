package diagnose

import (
	"cmp"
	"fmt"

	"achbridge/bridge/status"
)

// mergeFinding returns which hosts feed the output m of a merge, and the worst reason why others do not.
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

// foreignWriterFinding adds the cause and the fix for another program that writes into the mirror m.
func foreignWriterFinding(f Finding, m status.Mirror) Finding {
	f.Cause, f.Text = cmp.Or(m.Cause, status.CauseOther), m.Name+": "+m.Reason
	f.Fix = fmt.Sprintf("end the other program: fuser -v /dev/shm/achshm-%s, as root, names the processes that have it open", m.Name)
	return f
}
