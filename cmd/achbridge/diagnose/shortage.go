package diagnose

import (
	"fmt"
	"time"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
)

// short is what the link does to the frames that do not come, or come late.
func (f *flow) short() (Finding, bool) {
	lossy := f.packets >= fewest && f.loss >= lossMuch // then each frame counts
	if f.missing() < shortfall && f.late() < shortfall && !(lossy && f.gone() >= shortfall) {
		return Finding{}, false
	}
	if lossy {
		return Finding{Cause: status.CauseLoss, Text: fmt.Sprintf("the way %s loses %.0f %% of the packets", f.to, 100*f.loss),
			Evidence: []string{f.rateText(), f.fateText()},
			Cure:     "mend the radio link or cable; for large frames --transport sctp on both hosts helps: it does not slow down for loss"}, true
	}
	tight := f.way+f.sending() > f.budget()
	switch {
	case tight && f.late() >= shortfall && f.missing() < shortfall && f.hz*f.sending() < nearlyAll && !f.crowded():
		return f.tooTight(), true // it would be late on a link of its own too
	case f.busy() || f.missing() >= shortfall && f.full < 0 && f.crowded():
		return f.tooMuch(), true
	case f.missing() >= shortfall:
		return f.starved(), true
	case tight:
		return f.tooTight(), true
	case f.frames.Expired+f.frames.Late+f.frames.LateKept >= fewFrames:
		return f.starved(), true
	}
	return Finding{}, false
}

// crowded reports that the link carries more of other channels, so that the time which a
// frame took tells nothing of the link.
func (f *flow) crowded() bool {
	return f.path == 0 && f.mbit > crowdMbit && f.mbit > 2*f.hz*float64(f.bytes)*8/1e6
}

// stalled is what the link does to frames that are late though few of them are missing.
func (f *flow) stalled() Finding {
	if f.busy() {
		return f.tooMuch()
	}
	return f.starved()
}

// starved is a daemon that does not send in time, though the link has room.
func (f *flow) starved() Finding {
	r := Finding{Cause: status.CauseHostBusy, Text: "frames of " + f.what + " leave late or not at all, though the link " + f.to + " has room",
		Evidence: []string{f.rateText(), f.fateText()}, Cure: "give the daemon of " + f.origin + " the processor in time: look at top there, and at its nice level"}
	if f.load != "" {
		r.Evidence = append(r.Evidence, "load of "+f.here+": "+f.load)
	}
	return r
}

// tooTight is a budget that no frame can meet.
func (f *flow) tooTight() Finding {
	need := f.way + f.sending()
	return Finding{
		Cause: status.CauseBudget, Text: fmt.Sprintf("the budget of %s, %v, is too short: a frame takes %s %s", f.what, f.qos.EffectiveBudget(), ui.Millis(1000*need), f.to),
		Evidence: []string{
			fmt.Sprintf("a frame of %s takes %s to send and %s on its way", ui.AboutBytes(f.bytes), ui.Millis(1000*f.sending()), ui.Millis(1000*f.way)),
			f.rateText(), f.fateText(),
		},
		Cure: fmt.Sprintf("a budget of %v at least; or smaller frames, compress zstd, a faster link", roundUp(need)),
	}
}

// roundUp is a budget that has room for s seconds.
func roundUp(s float64) time.Duration {
	d := time.Duration(1.25 * s * float64(time.Second))
	for unit := time.Second; unit >= time.Millisecond; unit /= 10 {
		if d >= 2*unit {
			return (d + unit - 1).Truncate(unit)
		}
	}
	return 2 * time.Millisecond
}

// tooMuch is a link that cannot carry what is put.
func (f *flow) tooMuch() Finding {
	r := Finding{Cause: status.CauseLinkRate, Text: fmt.Sprintf("the link %s carries less than %s needs", f.to, f.what)}
	if demand := f.hz * float64(f.bytes) * 8; demand > 0 {
		r.Evidence = append(r.Evidence, fmt.Sprintf("%s, %s; the link carried %s in all", f.rateText(), ui.BitRate(demand), ui.BitRate(max(1, f.mbit*1e6))))
	}
	if f.full > 0 {
		r.Evidence = append(r.Evidence, fmt.Sprintf("frames waited for the link %.0f %% of the time", 100*f.full))
	}
	if f.path > 0 {
		r.Evidence = append(r.Evidence, fmt.Sprintf("measured when it was full: %s", ui.BitRate(f.path*1e6)))
	}
	r.Evidence = append(r.Evidence, f.fateText())
	r.Cure = "max_rate or compress for the channels that take most; a higher priority for " + f.what + "; or a faster link"
	return r
}
