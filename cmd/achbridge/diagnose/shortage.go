package diagnose

import (
	"fmt"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/unit"
	"achbridge/cmd/achbridge/ui"
)

// short returns the reason why frames are missing or late, or false if enough arrive in time.
func (f *flow) short() (Finding, bool) {
	lossy := f.link.packets >= fewest && f.link.loss >= lossMuch // with losses even a few missing frames count
	if f.missing() < shortfall && f.late() < shortfall && !(lossy && f.gone() >= shortfall) && !f.allLate() {
		return Finding{}, false
	}
	tight := f.link.oneWay+f.sending() > f.budget()
	alone := tight && f.missing() < shortfall && f.hz*f.sending() < nearlyAll && !f.sharesLink() // frames would be late on a link without other channels too
	if lossy && !(alone && f.allLate()) {
		return Finding{Cause: status.CauseLoss, Text: fmt.Sprintf("the way %s loses %.0f %% of the packets", f.link.to, 100*f.link.loss),
			Evidence: []string{f.rateText(), f.outcomeText()},
			Fix:      "mend the radio link or cable; for large frames --transport sctp on both hosts helps: it does not slow down for loss"}, true
	}
	switch {
	case f.hosts.waits.starves(): // its own delay looked like the capacity of the link
		return f.starved(), true
	case alone && (f.late() >= shortfall || f.allLate()):
		return f.tooTight(), true
	case f.link.isHub && f.missing() >= shortfall:
		return f.slowHub(), true
	case f.busy() || f.missing() >= shortfall && f.link.full < 0 && f.sharesLink():
		return f.tooMuch(), true
	case f.missing() >= shortfall:
		return f.starved(), true
	case tight:
		return f.tooTight(), true
	case f.frames.Expired+f.frames.Late+f.frames.LateKept >= fewFrames, f.allLate():
		return f.starved(), true
	}
	return Finding{}, false
}

// sharesLink reports whether most of the link's traffic is of other channels. The delay of this channel's
// frames then does not show the link's capacity.
func (f *flow) sharesLink() bool {
	return f.link.capacity == 0 && f.link.mbit > reportMbit && f.link.mbit > 2*f.hz*float64(f.bytes)*8/1e6
}

// stalled returns the finding about frames that are late although few of them are missing.
func (f *flow) stalled() Finding {
	if f.busy() && !f.hosts.waits.starves() {
		return f.tooMuch()
	}
	return f.starved()
}

// slowHub returns the finding that frames are replaced before the hub takes them.
func (f *flow) slowHub() Finding {
	return Finding{
		Cause: status.CauseLinkRate, Text: fmt.Sprintf("%s: the way through the hub takes %.3g frames a second, of %.3g that are put", f.what, f.arrived(), f.hz),
		Evidence: []string{f.rateText(), f.outcomeText(), fmt.Sprintf("two frames may be on their way to the hub at once; the round trip between the hosts is %s", ui.Millis(2000*f.link.oneWay))},
		Fix:      "nothing where the newest frames are enough; else smaller frames, a hub that is nearer, or a direct link",
	}
}

// tooTight returns the finding that no frame can meet the budget.
func (f *flow) tooTight() Finding {
	need := f.link.oneWay + f.sending()
	return Finding{
		Cause: status.CauseBudget, Text: fmt.Sprintf("the budget of %s, %s, is too short: a frame takes %s %s", f.what, unit.Time(f.qos.EffectiveBudget()), ui.Millis(1000*need), f.link.to),
		Evidence: []string{
			fmt.Sprintf("a frame of %s takes %s to send and %s on its way", ui.AboutBytes(f.bytes), ui.Millis(1000*f.sending()), ui.Millis(1000*f.link.oneWay)),
			f.rateText(), f.outcomeText(),
		},
		Fix: fmt.Sprintf("a budget of %s at least; or smaller frames, compress zstd, a faster link", unit.Time(roundUp(need))),
	}
}

// roundUp returns the next greater round budget for s seconds.
func roundUp(s float64) time.Duration {
	d := time.Duration(1.25 * s * float64(time.Second))
	for unit := time.Second; unit >= time.Millisecond; unit /= 10 {
		if d >= 2*unit {
			return (d + unit - 1).Truncate(unit)
		}
	}
	return 2 * time.Millisecond
}

// tooMuch returns the finding that the link cannot carry all frames that are put.
func (f *flow) tooMuch() Finding {
	r := Finding{Cause: status.CauseLinkRate, Text: fmt.Sprintf("the link %s carries less than %s needs", f.link.to, f.what)}
	if demand := f.hz * float64(f.bytes) * 8; demand > 0 {
		r.Evidence = append(r.Evidence, fmt.Sprintf("%s, %s; the link carried %s in all", f.rateText(), ui.BitRate(demand), ui.BitRate(max(1, f.link.mbit*1e6))))
	}
	if f.link.full > 0 {
		r.Evidence = append(r.Evidence, fmt.Sprintf("frames waited for the link %.0f %% of the time", 100*f.link.full))
	}
	if f.link.capacity > 0 {
		r.Evidence = append(r.Evidence, fmt.Sprintf("measured when it was full: %s", ui.BitRate(f.link.capacity*1e6)))
	}
	r.Evidence = append(r.Evidence, f.outcomeText())
	r.Fix = "max_rate or compress for the channels that take most; a higher priority for " + f.what + "; or a faster link"
	return r
}
