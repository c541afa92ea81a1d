package diagnose

import (
	"fmt"

	"achbridge/bridge/status"
)

// mismatch returns the finding that the newest frame of a channel does not match its layout. what is the
// channel's name in the text. origin is the host that sent the layout.
func mismatch(m *status.Mismatch, what, origin string) Finding {
	f := Finding{Cause: status.CauseTypeMismatch, Text: fmt.Sprintf("frames of %s do not fit its type: %s", what, m.Why),
		Evidence: []string{"they come all the same; echo, record and others have their bytes, and no values"},
		Fix:      "make the type again from the program that puts them (achbridge type import), or name another in types, then achbridge reload"}
	if m.TypeFrom == status.TypeFromOrigin {
		f.Evidence = append(f.Evidence, "the type is the one that "+origin+" sent")
		f.Fix = "on " + origin + ", or where that mirrors it from: " + f.Fix
	} else {
		f.Evidence = append(f.Evidence, "the type is the one that types of this host's configuration names")
	}
	return f
}

// withMismatch adds the finding to others of the channel: as the diagnosis if there is no other problem,
// otherwise as a note.
func withMismatch(list []Finding, f Finding) []Finding {
	if list[0].Cause != Well {
		return append(list, f)
	}
	f.Evidence = append(f.Evidence, "else all is well: "+list[0].Text)
	list[0] = f
	return list
}
