package diagnose

import (
	"fmt"

	"achbridge/bridge/status"
)

// waitsMuch is the share of time waiting for a CPU from which the wait explains late or missing frames. Measured shares are
// 1 to 3 % on an idle host and 10 to 20 % on a busy one. With three busy loops on the only CPU it is 30 to 45 % at their
// nice level, where some frames are late, and 60 to 100 % at a nice level that is 3, 7 or 16 higher.
const waitsMuch = 0.3

// waits has the shares of time that the daemons of a link's two hosts waited for a CPU; 0 also means unknown.
type waits struct{ origin, reader float64 }

// waitsOf returns the shares of this host and of the peer of a link. out means that this host is the origin.
func waitsOf(here status.Report, link status.Link, out bool) waits {
	var ours, theirs float64
	if here.CPUWait != nil {
		ours = *here.CPUWait
	}
	if in := link.Inbound; in != nil && in.CPUWait != nil {
		theirs = *in.CPUWait
	}
	if out {
		return waits{ours, theirs}
	}
	return waits{theirs, ours}
}

// Starves reports whether the daemon of a report waits long enough for a CPU to make frames late.
func Starves(s status.Report) bool {
	return s.CPUWait != nil && *s.CPUWait >= waitsMuch
}

// starves reports whether one of the daemons waits long enough to make frames late.
func (w waits) starves() bool { return max(w.origin, w.reader) >= waitsMuch }

// host returns the host of the daemon that waits more.
func (w waits) host(origin, reader string) string {
	if w.reader > w.origin {
		return reader
	}
	return origin
}

// starved returns the finding that a daemon gets too little CPU time. It is measured, or follows from a link with room.
func (f *flow) starved() Finding {
	host := f.hosts.waits.host(f.hosts.origin, f.hosts.reader)
	r := Finding{Cause: status.CauseHostBusy, Evidence: []string{f.rateText(), f.outcomeText()}}
	if f.hosts.waits.starves() {
		r.Text = "frames of " + f.what + " are late or missing: the daemon on " + host + " gets too little CPU time"
		r.Evidence = append([]string{fmt.Sprintf("its threads waited for a CPU %.0f %% of the time", 100*max(f.hosts.waits.origin, f.hosts.waits.reader))}, r.Evidence...)
	} else {
		host = f.hosts.origin
		r.Text = "frames of " + f.what + " leave late or not at all, though the link " + f.link.to + " has room"
	}
	r.Fix = "give the daemon on " + host + " more CPU time: look at the load there (top), and at the daemon's nice level"
	if f.hosts.load != "" && (host == f.hosts.here || !f.hosts.waits.starves()) {
		r.Evidence = append(r.Evidence, "load of "+f.hosts.here+": "+f.hosts.load)
	}
	return r
}
