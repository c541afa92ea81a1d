package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"achbridge/bridge"
)

// flow is how a channel went over a link between two looks, from either end.
type flow struct {
	what    string // NAME for people
	to      string // the link: "from robot", "to pc"
	s       float64
	hz      float64 // frames put
	frames  bridge.Accounts
	qos     bridge.QoS
	bytes   int     // of a frame, as far as known
	transit float64 // s from capture to arrival; 0: not known
	way     float64 // s one way
	loss    float64 // share of the packets
	packets float64 // of which that is
	mbit    float64 // that the link carried in all
	path    float64 // Mbit/s that it carries, as measured; 0: not known
	origin  string  // the host that sends
	here    string  // the host that tells
	load    string  // its load
	full    float64 // share of the time in which frames waited for the link; -1: not known here
}

const (
	// looksMost is how often in a second the watcher looks at a channel at the least:
	// frames that are put more often may be superseded before it sees them.
	looksMost = 400
	// shortfall is the share of frames that may be missing, or late, without anything
	// being the matter: superseded, that is what newest first means.
	shortfall = 0.1
	fewFrames = 5
	lossMuch  = 0.05 // of the packets: then it is the loss
	lossSome  = 0.01 // worth a note
	fewest    = 20   // packets that tell a share
	fullMuch  = 0.5
	nearlyAll = 0.9
	crowdMbit = 0.1 // less than that is what the hosts tell each other
	lockMuch  = 0.2 // of the time
)

func (f *flow) budget() float64 { return budgetOf(f.qos).Seconds() }

// expected is how many frames a second should come.
func (f *flow) expected() float64 {
	hz := f.hz
	if f.frames.RateLimited > 0 {
		hz *= 1 - float64(f.frames.RateLimited)/float64(max(f.frames.Offered, f.frames.RateLimited))
	}
	return min(hz, looksMost)
}

// arrived are the frames that came, whatever became of them then.
func (f *flow) arrived() float64 {
	return float64(f.frames.Delivered+f.frames.LateKept+f.frames.Late+f.frames.Refused) / f.s
}

// missing is the share of the frames that should come and do not; a few are between the
// looks, or came when a processor was busy.
func (f *flow) missing() float64 {
	if (f.expected()-f.arrived())*f.s < fewFrames {
		return 0
	}
	return f.gone()
}

// gone is that share of however few frames.
func (f *flow) gone() float64 {
	if e := f.expected(); e > 0 {
		return 1 - f.arrived()/e
	}
	return 0
}

// late is the share of the frames that were past their budget, of all that were not
// replaced in time.
func (f *flow) late() float64 {
	late := float64(f.frames.Expired + f.frames.Late + f.frames.LateKept)
	if all := late + float64(f.frames.Delivered); all > 0 {
		return late / all
	}
	return 0
}

// sending is how long the link takes for a frame, in s, by the best that is known.
func (f *flow) sending() float64 {
	switch {
	case f.path > 0:
		return float64(f.bytes) * 8 / (f.path * 1e6)
	case f.transit > 0:
		return max(0, f.transit-f.way)
	}
	return 0
}

// busy reports that the link had no room left.
func (f *flow) busy() bool {
	if f.full >= 0 {
		return f.full >= fullMuch
	}
	return f.hz*f.sending() >= nearlyAll || f.hz*float64(f.bytes)*8/1e6 > 1.1*f.mbit
}

// short is what the link does to the frames that do not come, or come late.
func (f *flow) short() (finding, bool) {
	lossy := f.packets >= fewest && f.loss >= lossMuch // then each frame counts
	if f.missing() < shortfall && f.late() < shortfall && !(lossy && f.gone() >= shortfall) {
		return finding{}, false
	}
	if lossy {
		return finding{Cause: bridge.CauseLoss, Text: fmt.Sprintf("the way %s loses %.0f %% of the packets", f.to, 100*f.loss),
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
	return finding{}, false
}

// crowded reports that the link carries more of other channels, so that the time which a
// frame took tells nothing of the link.
func (f *flow) crowded() bool {
	return f.path == 0 && f.mbit > crowdMbit && f.mbit > 2*f.hz*float64(f.bytes)*8/1e6
}

// starved is a daemon that does not send in time, though the link has room.
func (f *flow) starved() finding {
	r := finding{Cause: bridge.CauseHostBusy, Text: "frames of " + f.what + " leave late or not at all, though the link " + f.to + " has room",
		Evidence: []string{f.rateText(), f.fateText()}, Cure: "give the daemon of " + f.origin + " the processor in time: look at top there, and at its nice level"}
	if f.load != "" {
		r.Evidence = append(r.Evidence, "load of "+f.here+": "+f.load)
	}
	return r
}

// tooTight is a budget that no frame can meet.
func (f *flow) tooTight() finding {
	need := f.way + f.sending()
	return finding{
		Cause: bridge.CauseBudget, Text: fmt.Sprintf("the budget of %s, %v, is too short: a frame takes %s %s", f.what, budgetOf(f.qos), millis(1000*need), f.to),
		Evidence: []string{
			fmt.Sprintf("a frame of %s takes %s to send and %s on its way", aboutBytes(f.bytes), millis(1000*f.sending()), millis(1000*f.way)),
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
func (f *flow) tooMuch() finding {
	r := finding{Cause: bridge.CauseLinkRate, Text: fmt.Sprintf("the link %s carries less than %s needs", f.to, f.what)}
	if demand := f.hz * float64(f.bytes) * 8; demand > 0 {
		r.Evidence = append(r.Evidence, fmt.Sprintf("%s, %s; the link carried %s in all", f.rateText(), bitRate(demand), bitRate(max(1, f.mbit*1e6))))
	}
	if f.full > 0 {
		r.Evidence = append(r.Evidence, fmt.Sprintf("frames waited for the link %.0f %% of the time", 100*f.full))
	}
	if f.path > 0 {
		r.Evidence = append(r.Evidence, fmt.Sprintf("measured when it was full: %s", bitRate(f.path*1e6)))
	}
	r.Evidence = append(r.Evidence, f.fateText())
	r.Cure = "max_rate or compress for the channels that take most; a higher priority for " + f.what + "; or a faster link"
	return r
}

func (f *flow) rateText() string {
	return fmt.Sprintf("%.3g frames a second are put, of %s as they are sent", f.hz, aboutBytes(f.bytes))
}

// fateText is what became of the frames between the looks.
func (f *flow) fateText() string {
	text := fmt.Sprintf("%.3g a second came in time", float64(f.frames.Delivered)/f.s)
	drops := dropsText(f.frames)
	if f.frames.LateKept > 0 {
		drops = strings.TrimSuffix(fmt.Sprintf("late_kept %d, %s", f.frames.LateKept, drops), ", ")
	}
	if drops != "" {
		text += fmt.Sprintf("; in %.3g s: %s", f.s, drops)
	}
	return text
}

// notes are what is worth knowing although it is not the bottleneck.
func (f *flow) notes(verdict bridge.Cause) (list []finding) {
	if f.packets >= fewest && f.loss >= lossSome && verdict != bridge.CauseLoss {
		list = append(list, finding{Cause: bridge.CauseLoss, Text: fmt.Sprintf("the way %s loses %.1f %% of the packets", f.to, 100*f.loss)})
	}
	if need := f.way + f.sending(); need > f.budget() && verdict != bridge.CauseBudget && verdict != causeWell {
		list = append(list, f.tooTight())
	}
	if f.frames.RateLimited > 0 {
		list = append(list, finding{Cause: bridge.CauseRule, Text: fmt.Sprintf("max_rate leaves out %.3g frames a second, as was asked", float64(f.frames.RateLimited)/f.s)})
	}
	return list
}

// mirrorFlow looks at a mirror that is fed.
func (s *snapshot) mirrorFlow(m bridge.MirrorStatus) []finding {
	before, _ := mirrorOf(s.before, s.host, s.channel)
	link, _ := linkOf(s.after, s.host)
	f := s.flowFrom(before, m, link)
	verdict := s.mirrorVerdict(&f, before, m, link)
	return append([]finding{verdict}, f.notes(verdict.Cause)...)
}

func (s *snapshot) flowFrom(before, m bridge.MirrorStatus, link bridge.LinkStatus) flow {
	f := flow{
		what: m.Name, to: "from " + s.host, s: s.apart.Seconds(), frames: grown(before.Accounts, m.Accounts), qos: m.QoS, bytes: m.Bytes,
		way: link.RTTms / 2000, full: -1, origin: s.host, here: s.after.Host, load: s.load,
	}
	f.hz = float64(max(f.frames.Offered, less(m.Seq, before.Seq))) / f.s
	if m.TransitMs != nil {
		f.transit = *m.TransitMs / 1000
	}
	old, _ := linkOf(s.before, s.host)
	missed, came := less(link.Missed, old.Missed), less(link.Received, old.Received)
	f.packets = float64(missed + came)
	f.loss = float64(missed) / max(1, f.packets)
	f.mbit = float64(less(link.ReceivedBytes, old.ReceivedBytes)) * 8 / 1e6 / f.s
	return f
}

func (s *snapshot) mirrorVerdict(f *flow, before, m bridge.MirrorStatus, link bridge.LinkStatus) finding {
	lock := (m.LockWaitS - before.LockWaitS) / f.s
	switch {
	case lock >= lockMuch:
		return s.lockTaken(m, lock)
	case m.Cause != "" && f.frames.Refused > 0:
		return finding{Cause: m.Cause, Text: m.Name + " takes no frame: " + m.Reason, Evidence: append(s.fileEvidence(m.Cause), f.fateText()), Cure: s.cure(m.Cause)}
	case f.hz == 0:
		if s.rests(m, link) {
			return s.well(f, m, link, fmt.Sprintf("%s rests, as it does now and then", s.name()))
		}
		return s.stopped(m, link)
	}
	if d := m.QoS.Deadline.Seconds(); d > 0 && 1/f.hz > d {
		return finding{Cause: bridge.CausePublisherSlow, Text: fmt.Sprintf("%s is put less often than its deadline asks for", s.name()),
			Evidence: []string{f.rateText(), fmt.Sprintf("the deadline is %v", m.QoS.Deadline)},
			Cure:     "look at the publisher on " + s.host + ", or give the mirror a longer deadline"}
	}
	if r, ok := s.unclear(f, m, link); ok {
		return r
	}
	if r, ok := f.short(); ok {
		return r
	}
	return s.well(f, m, link, m.Name+" is as fresh as its origin and the link allow")
}

// unclear is a clock of the origin that is not known well enough to judge ages.
func (s *snapshot) unclear(f *flow, m bridge.MirrorStatus, link bridge.LinkStatus) (finding, bool) {
	off := link.ClockUncertaintyMs / 1000
	command := m.QoS.Class == bridge.Command && f.frames.Late > 0 && f.transit > 0 && f.transit <= f.budget() && f.transit+off > f.budget()
	if !command && (m.AgeMs != nil && off <= f.budget() || f.frames.Delivered == 0) {
		return finding{}, false
	}
	r := finding{Cause: bridge.CauseClock, Text: fmt.Sprintf("the clock of %s is known to ± %s only, and the budget is %v", s.host, millis(link.ClockUncertaintyMs), budgetOf(m.QoS)),
		Evidence: []string{f.rateText(), f.fateText(), fmt.Sprintf("the round trip is %s: half of it is the uncertainty at best", millis(link.RTTms))},
		Cure:     "a longer budget, or a link with a shorter round trip"}
	if m.AgeMs == nil {
		r.Text = "how old the frames of " + s.name() + " are is not known: the clock of " + s.host + " is not"
		r.Cure = "ask again in a moment; it is learnt from what goes both ways"
	}
	return r, true
}

func (s *snapshot) lockTaken(m bridge.MirrorStatus, share float64) finding {
	f := finding{Cause: bridge.CauseReceiverSlow, Text: "a program on this host sits on the lock of " + m.Name,
		Evidence: []string{fmt.Sprintf("frames waited for it %.0f %% of the time", 100*min(1, share))}, Cure: s.cure(bridge.CauseReceiverSlow)}
	if s.file.holder != "" {
		f.Evidence = append(f.Evidence, "it is held by "+s.file.holder)
	}
	return f
}

// rests reports that a channel is quiet for no longer than is usual for it.
func (s *snapshot) rests(m bridge.MirrorStatus, link bridge.LinkStatus) bool {
	if m.AgeMs == nil || m.Offered < 2 || link.UpS == 0 {
		return false
	}
	usual := link.UpS / float64(m.Offered)
	return *m.AgeMs/1000 < 5*usual
}

// stopped is a channel into which nothing is put.
func (s *snapshot) stopped(m bridge.MirrorStatus, link bridge.LinkStatus) finding {
	f := finding{Cause: bridge.CausePublisherStopped, Text: "nothing is put into " + s.name(), Cure: "on " + s.host + ": achbridge why " + s.channel}
	if m.AgeMs != nil {
		f.Text += fmt.Sprintf(": its newest frame is %s old", millis(*m.AgeMs))
	}
	if m.Offered == 0 && m.Seq == 0 {
		f.Evidence = append(f.Evidence, "it never had a frame")
	} else {
		f.Evidence = append(f.Evidence, fmt.Sprintf("the mirror has frame %d, and %s has put none since", m.Seq, s.host))
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("the link is up, with a round trip of %s", millis(link.RTTms)))
	return f
}

func (s *snapshot) well(f *flow, m bridge.MirrorStatus, link bridge.LinkStatus, text string) finding {
	r := finding{Cause: causeWell, Text: text}
	if f.hz > 0 {
		r.Evidence = append(r.Evidence, f.rateText(), f.fateText())
	}
	if s.age != nil {
		r.Evidence = append(r.Evidence, fmt.Sprintf("age: %s on the mean, p99 %s, budget %v", millis(s.age.MeanMs), millis(s.age.P99Ms), budgetOf(m.QoS)))
	}
	r.Evidence = append(r.Evidence, fmt.Sprintf("link: round trip %s, %.1f %% lost, clock ± %s", millis(link.RTTms), 100*f.loss, millis(link.ClockUncertaintyMs)))
	if period := 1000 / f.hz; !math.IsInf(period, 0) && s.age != nil && s.age.P99Ms > 1000*f.budget() && period > 1000*f.budget() {
		r.Evidence = append(r.Evidence, fmt.Sprintf("it gets old because it is put only every %s", millis(period)))
	}
	return r
}

// grown is what was added to an account; one that began anew counts from nothing.
func grown(a, b bridge.Accounts) bridge.Accounts {
	if b.Offered < a.Offered {
		a = bridge.Accounts{}
	}
	return bridge.Accounts{
		Offered: less(b.Offered, a.Offered), Delivered: less(b.Delivered, a.Delivered), LateKept: less(b.LateKept, a.LateKept),
		Superseded: less(b.Superseded, a.Superseded), RateLimited: less(b.RateLimited, a.RateLimited), Expired: less(b.Expired, a.Expired),
		Lost: less(b.Lost, a.Lost), Late: less(b.Late, a.Late), Refused: less(b.Refused, a.Refused), Overflow: less(b.Overflow, a.Overflow),
	}
}

// less is a less b, and not below zero.
func less(a, b uint64) uint64 { return a - min(a, b) }
