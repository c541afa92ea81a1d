package diagnose

import (
	"cmp"
	"fmt"
	"strings"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/unit"
	"achbridge/cmd/achbridge/ui"
)

// flow describes the frames of a channel on a link between two reports. Both ends can make one.
type flow struct {
	what        string // NAME for people
	s           float64
	hz          float64 // frames put
	frames      ledger.FrameCounters
	avoidable   uint64 // frames that were superseded though the link had room; 0 if not known here
	atHub       uint64 // frames that a newer one replaced at the hub, of those superseded
	qos         rule.QoS
	bytes       int     // size of a frame as sent; 0 means unknown
	oneWayDelay float64 // seconds from capture to arrival; 0 means unknown
	link        linkUse
	hosts       flowHosts

	lock   float64      // share of the time in which frames waited for the mirror's lock
	cause  status.Cause // why the mirror takes no frames; CauseBudget means all are late; may be empty
	unread status.Cause // why the origin cannot read the channel; empty if it can
	why    string       // the reason for cause or unread as text, if known
}

// linkUse is the link of a flow between the two reports.
type linkUse struct {
	to         string  // as text: "from robot", "to pc"
	isHub      bool    // frames go through a hub
	oneWay     float64 // s one way
	clockError float64 // uncertainty of the clocks' offset, s
	loss       float64 // share of the packets that were lost
	packets    float64 // number of packets that loss is a share of
	mbit       float64 // Mbit/s that the link carried, all channels together
	capacity   float64 // measured capacity, Mbit/s; 0 means unknown
	full       float64 // share of the time in which frames waited for the link; -1 means unknown here
}

// flowHosts names the hosts of a flow.
type flowHosts struct {
	origin string // host that sends the frames
	reader string // host that has the mirror
	here   string // this host: origin or reader
	load   string // load of this host, as text
	waits  waits
}

const (
	// pollsLeast is how many times a second the watcher looks at a channel, at least. Frames
	// that are put more often may be superseded before it sees them.
	pollsLeast = 400
	// shortfall is the share of frames that may be missing or late without a finding.
	// Frames are superseded on purpose: newest first.
	shortfall = 0.1
	// seesMost is the highest frame rate, in Hz, at which the watcher notices each frame. It polls every
	// 200 µs, and a poll may be late.
	seesMost       = 2500
	avoidableShare = 0.01 // share of frames superseded though the link had room from which that is a note
	fewFrames      = 5
	lossMuch       = 0.05 // share of lost packets from which loss is the diagnosis
	lossSome       = 0.01 // share of lost packets from which loss is a note
	fewest         = 20   // minimum number of packets for a share that means something
	fullMuch       = 0.5
	nearlyAll      = 0.9
	reportMbit     = 0.1 // Mbit/s that reports between the hosts may take
	lockMuch       = 0.2 // share of the time from which waiting for the lock is the diagnosis
)

func (f *flow) budget() float64 { return f.qos.EffectiveBudget().Seconds() }

// expected returns the number of frames that should arrive in a second.
func (f *flow) expected() float64 {
	hz := f.hz
	if f.frames.RateLimited > 0 {
		hz *= 1 - float64(f.frames.RateLimited)/float64(max(f.frames.Offered, f.frames.RateLimited))
	}
	return min(hz, pollsLeast)
}

// arrived counts the frames that came, whatever happened to them afterwards.
func (f *flow) arrived() float64 {
	return float64(f.frames.Delivered+f.frames.LateKept+f.frames.Late+f.frames.Refused) / f.s
}

// missing returns the share of the expected frames that did not arrive. It returns 0 for a few
// frames: they may still be in flight, or a CPU was busy.
func (f *flow) missing() float64 {
	if (f.expected()-f.arrived())*f.s < fewFrames {
		return 0
	}
	return f.gone()
}

// gone returns the share of the expected frames that did not arrive, however few they are.
func (f *flow) gone() float64 {
	if e := f.expected(); e > 0 {
		return 1 - f.arrived()/e
	}
	return 0
}

// late returns the share of late frames among those that were not superseded.
func (f *flow) late() float64 {
	late := float64(f.frames.Expired + f.frames.Late + f.frames.LateKept)
	if all := late + float64(f.frames.Delivered); all > 0 {
		return late / all
	}
	return 0
}

// allLate reports that only late frames come, as the mirror itself says.
func (f *flow) allLate() bool { return f.cause == status.CauseBudget }

// sending returns the time that the link needs to send a frame, in s; 0 if unknown.
func (f *flow) sending() float64 {
	switch {
	case f.link.capacity > 0:
		return float64(f.bytes) * 8 / (f.link.capacity * 1e6)
	case f.oneWayDelay > 0:
		return max(0, f.oneWayDelay-f.link.oneWay)
	}
	return 0
}

// busy reports whether the link was full.
func (f *flow) busy() bool {
	if f.link.full >= 0 {
		return f.link.full >= fullMuch
	}
	return f.hz*f.sending() >= nearlyAll || f.hz*float64(f.bytes)*8/1e6 > 1.1*f.link.mbit
}

// diagnosis returns the diagnosis of the flow, or false if there is no problem. Each host uses its own
// measurements and those that the other host reported, so that both reach the same diagnosis.
func (f *flow) diagnosis() (Finding, bool) {
	switch {
	case f.lock >= lockMuch:
		return Finding{Cause: status.CauseReceiverSlow, Text: "a program on " + f.hosts.reader + " holds the lock of the mirror of " + f.what,
			Evidence: []string{fmt.Sprintf("frames waited for it %.0f %% of the time", 100*min(1, f.lock))}, Fix: f.onReader("let the process that holds the lock go on, or end it")}, true
	case f.unread == status.CauseBadFrame || f.unread == status.CauseLimit:
		return Finding{Cause: f.unread, Text: "frames of " + f.what + " cannot be sent" + f.why, Evidence: []string{f.outcomeText()},
			Fix: "on " + f.hosts.origin + ": have its publisher put smaller frames"}, true
	case f.unread != "":
		return Finding{Cause: f.unread, Text: f.what + " cannot be read on " + f.hosts.origin + f.why,
			Fix: "on " + f.hosts.origin + ": let the process that holds its lock go on, or end it"}, true
	case f.frames.Refused > 0 && f.cause != "" && f.cause != status.CausePublisherSlow && !f.allLate(),
		float64(f.frames.Refused) >= shortfall*float64(max(1, f.frames.Offered)):
		return Finding{Cause: cmp.Or(f.cause, status.CauseOther), Text: f.hosts.reader + " cannot put what comes of " + f.what, Evidence: []string{f.outcomeText()},
			Fix: f.onReader("achbridge why its mirror")}, true
	case f.cause == status.CausePublisherSlow:
		return Finding{Cause: f.cause, Text: f.what + " is put less often than the deadline of " + f.hosts.reader + " asks for",
			Evidence: []string{f.rateText()}, Fix: "look at the publisher on " + f.hosts.origin + ", or give the mirror a longer deadline"}, true
	}
	if r, ok := f.unclear(); ok {
		return r, true
	}
	return f.short()
}

// onReader adds the host on which to apply a fix.
func (f *flow) onReader(fix string) string {
	if f.hosts.reader == f.hosts.here {
		return fix
	}
	return "on " + f.hosts.reader + ": " + fix
}

// unclear returns the finding that the clocks' offset is too uncertain for the budget of a
// command, or false if it is not.
func (f *flow) unclear() (Finding, bool) {
	if f.hosts.waits.starves() || f.qos.Class != rule.Command || f.frames.Late == 0 || f.oneWayDelay <= 0 || f.oneWayDelay > f.budget() || f.oneWayDelay+f.link.clockError <= f.budget() {
		return Finding{}, false
	}
	return Finding{Cause: status.CauseClock, Text: fmt.Sprintf("the clocks of %s and %s are known to each other to ± %s only, and the budget of %s is %s", f.hosts.origin, f.hosts.reader, ui.Millis(1000*f.link.clockError), f.what, unit.Time(f.qos.EffectiveBudget())),
		Evidence: []string{f.rateText(), f.outcomeText(), fmt.Sprintf("the round trip is %s: half of it is the uncertainty at best", ui.Millis(2000*f.link.oneWay))},
		Fix:      "a longer budget, or a link with a shorter round trip"}, true
}

func (f *flow) rateText() string {
	return fmt.Sprintf("%.3g frames a second are put, of %s as they are sent", f.hz, ui.AboutBytes(f.bytes))
}

// outcomeText returns the outcome of the frames between the reports, as text.
func (f *flow) outcomeText() string {
	text := fmt.Sprintf("%.3g a second came in time", float64(f.frames.Delivered)/f.s)
	drops := DropsText(f.frames)
	if f.atHub > 0 {
		drops += fmt.Sprintf(", of those %d replaced at the hub", f.atHub)
	}
	if f.frames.LateKept > 0 {
		drops = strings.TrimSuffix(fmt.Sprintf("late_kept %d, %s", f.frames.LateKept, drops), ", ")
	}
	if drops != "" {
		text += fmt.Sprintf("; in %.3g s: %s", f.s, drops)
	}
	return text
}

// lateText returns the text for a channel of which only late frames arrive.
func (f *flow) lateText() string {
	return fmt.Sprintf("late: every frame that comes to %s is past its budget of %s", f.hosts.reader, unit.Time(f.qos.EffectiveBudget()))
}

// notes returns further findings, which do not explain the diagnosis.
func (f *flow) notes(diagnosis status.Cause) (list []Finding) {
	if f.link.packets >= fewest && f.link.loss >= lossSome && diagnosis != status.CauseLoss {
		list = append(list, Finding{Cause: status.CauseLoss, Text: fmt.Sprintf("the way %s loses %.1f %% of the packets", f.link.to, 100*f.link.loss)})
	}
	if need := f.link.oneWay + f.sending(); need > f.budget() && diagnosis != status.CauseBudget && diagnosis != Well && !f.hosts.waits.starves() {
		list = append(list, f.tooTight())
	}
	if f.avoidable >= fewFrames && float64(f.avoidable) >= avoidableShare*float64(f.frames.Offered) && diagnosis != status.CauseHostBusy {
		list = append(list, f.replaced())
	}
	if f.frames.RateLimited > 0 {
		list = append(list, Finding{Cause: status.CauseRule, Text: fmt.Sprintf("max_rate omits %.3g frames a second, as requested", float64(f.frames.RateLimited)/f.s)})
	}
	return list
}

// replaced returns the note about frames that were superseded although the link had room.
func (f *flow) replaced() Finding {
	text := fmt.Sprintf("%s: %d of %d frames were replaced before they left, though the link %s has room", f.what, f.avoidable, f.frames.Offered, f.link.to)
	if f.hz > seesMost {
		return Finding{Cause: status.CauseSeldomWatched, Text: fmt.Sprintf("%s: %.3g a second are more than are seen one by one", text, f.hz)}
	}
	return Finding{Cause: status.CauseHostBusy, Text: text + ": " + f.hosts.origin + " was busy"}
}

// less returns a - b, or 0 if b is greater.
func less(a, b uint64) uint64 { return a - min(a, b) }
