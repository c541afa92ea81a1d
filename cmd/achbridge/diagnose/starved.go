package diagnose

import (
	"fmt"

	"achbridge/bridge/status"
)

// waitsMuch is the share of the time that a daemon waits for a processor from which this is why frames are late or missing.
// Measured: 1 to 3 % on an idle host, 10 to 20 % on a busy one. Beside three busy loops on its only processor it is 30 to 45 %
// at their nice level, where some frames come late, and 60 to 100 % at 3, 7 or 16 more.
const waitsMuch = 0.3

// waits says for which share of the time the daemons of a link's two hosts waited for a processor; 0: hardly, or it is not
// known.
type waits struct{ origin, reader float64 }

// waitsOf is what this host and the other end of a link know of themselves; out: frames go from here to there.
func waitsOf(here status.Report, link status.Link, out bool) waits {
	var ours, theirs float64
	if here.ProcessorWait != nil {
		ours = *here.ProcessorWait
	}
	if in := link.Inbound; in != nil && in.ProcessorWait != nil {
		theirs = *in.ProcessorWait
	}
	if out {
		return waits{ours, theirs}
	}
	return waits{theirs, ours}
}

// Starves reports whether the daemon of a report waits so much for a processor that frames may be late.
func Starves(s status.Report) bool {
	return s.ProcessorWait != nil && *s.ProcessorWait >= waitsMuch
}

// starves reports whether one of the daemons waits so much that frames are late.
func (w waits) starves() bool { return max(w.origin, w.reader) >= waitsMuch }

// host names the host of the daemon that waits most.
func (w waits) host(origin, reader string) string {
	if w.reader > w.origin {
		return reader
	}
	return origin
}

// starved is the finding that a daemon does not get the processor in time: the kernel says so, or the link has room.
func (f *flow) starved() Finding {
	host := f.hosts.waits.host(f.hosts.origin, f.hosts.reader)
	r := Finding{Cause: status.CauseHostBusy, Evidence: []string{f.rateText(), f.fateText()}}
	if f.hosts.waits.starves() {
		r.Text = "frames of " + f.what + " are late or missing: the daemon on " + host + " gets too little processor time"
		r.Evidence = append([]string{fmt.Sprintf("its threads waited for a processor %.0f %% of the time", 100*max(f.hosts.waits.origin, f.hosts.waits.reader))}, r.Evidence...)
	} else {
		host = f.hosts.origin
		r.Text = "frames of " + f.what + " leave late or not at all, though the link " + f.link.to + " has room"
	}
	r.Cure = "give the daemon on " + host + " more processor time: look at the load there (top), and at the daemon's nice level"
	if f.hosts.load != "" && (host == f.hosts.here || !f.hosts.waits.starves()) {
		r.Evidence = append(r.Evidence, "load of "+f.hosts.here+": "+f.hosts.load)
	}
	return r
}
