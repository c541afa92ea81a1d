package diagnose

import (
	"cmp"
	"fmt"

	"achbridge/bridge/status"
	"achbridge/bridge/unit"
	"achbridge/cmd/achbridge/ui"
)

// mirrorFlow returns the findings about a mirror that receives frames.
func (s *Snapshot) mirrorFlow(m status.Mirror) []Finding {
	before, _ := MirrorOf(s.Before, s.Host, s.Channel)
	link, _ := LinkOf(s.After, s.Host)
	f := s.flowFrom(before, m, link)
	diagnosis := s.mirrorDiagnosis(&f, before, m, link)
	if m.LateS > 0 {
		diagnosis.Evidence = append([]string{f.lateText()}, diagnosis.Evidence...)
	}
	if m.Stamps != nil {
		diagnosis = stampFinding(diagnosis, before, m)
	}
	list := append([]Finding{diagnosis}, f.notes(diagnosis.Cause)...)
	if text, fix := Unshifted(m); text != "" {
		list = append(list, Finding{Cause: status.CauseOther, Text: text, Fix: fix})
	}
	return list
}

// Unshifted returns the warning that the frames of a mirror seem to need the option stamps, and the fix. text is empty if
// they do not.
func Unshifted(m status.Mirror) (text, fix string) {
	u := m.Unshifted
	if u == nil {
		return "", ""
	}
	return fmt.Sprintf("frames of %s seem to have time stamps, which are put unchanged: %s has been up for %s, this host for %s", m.Name, u.Host, ui.Seconds(u.OriginUptimeS), ui.Seconds(u.UptimeS)),
		fmt.Sprintf("if the stamps count from the boot of %s, set stamps: %q for %s/%s", u.Host, u.Rule, m.Host, m.Channel)
}

// stampFinding adds to a finding how the stamps in the frames are shifted. Commands that have expired are the finding
// unless there is a more general problem.
func stampFinding(found Finding, before, m status.Mirror) Finding {
	offset := fmt.Sprintf("stamps are shifted by %.6f s, with an error of %s at most", m.Stamps.OffsetS, ui.Millis(m.Stamps.ErrorMs))
	found.Evidence = append(found.Evidence, offset)
	if m.Stamps.Unparsed > 0 {
		found.Evidence = append(found.Evidence, fmt.Sprintf("%d frames have no stamps as in %s: they were put unchanged", m.Stamps.Unparsed, m.QoS.Stamps))
	}
	expired := m.Stamps.Expired
	if before.Stamps != nil {
		expired = less(expired, before.Stamps.Expired)
	}
	if expired == 0 || found.Cause != Well && found.Cause != status.CausePublisherStopped && found.Cause != status.CauseBudget {
		return found
	}
	found.Cause = status.CauseBudget
	found.Text = fmt.Sprintf("%d commands had expired when they came: the last was valid for %s, and the clock is known to ± %s", expired, ui.Millis(m.Stamps.DurationMs), ui.Millis(m.Stamps.ErrorMs))
	found.Fix = "let the commands be valid for longer, or use a link with a shorter round trip"
	return found
}

func (s *Snapshot) flowFrom(before, m status.Mirror, link status.Link) flow {
	f := flow{
		what: m.Name, s: s.Apart.Seconds(), frames: m.FrameCounters.GrownBy(before.FrameCounters), qos: m.QoS, bytes: m.Bytes,
		link:  linkUse{to: "from " + s.Host, isHub: link.Way == status.WayHub, oneWay: link.RTTms / 2000, clockError: link.ClockUncertaintyMs / 1000, full: -1},
		hosts: flowHosts{origin: s.Host, reader: s.After.Host, here: s.After.Host, load: s.Load, waits: waitsOf(s.After, link, false)},
		lock:  (m.LockWaitS - before.LockWaitS) / s.Apart.Seconds(), unread: m.OriginCause, atHub: less(m.AtHub, before.AtHub),
	}
	f.hz = float64(max(f.frames.Offered, less(m.Seq, before.Seq))) / f.s
	if m.OneWayDelayMs != nil {
		f.oneWayDelay = *m.OneWayDelayMs / 1000
	}
	if m.Cause != "" && f.frames.Refused > 0 {
		f.cause = m.Cause
	}
	if d := m.QoS.Deadline; d > 0 && m.PeriodMs != nil && *m.PeriodMs > ui.Milliseconds(d) {
		f.cause = cmp.Or(f.cause, status.CausePublisherSlow)
	}
	if m.LateS > 0 {
		f.cause = cmp.Or(f.cause, status.CauseBudget)
	}
	old, _ := LinkOf(s.Before, s.Host)
	missed, came := less(link.Missed, old.Missed), less(link.Received, old.Received)
	f.link.packets = float64(missed + came)
	f.link.loss = float64(missed) / max(1, f.link.packets)
	f.link.mbit = float64(less(link.ReceivedBytes, old.ReceivedBytes)) * 8 / 1e6 / f.s
	f.take(old.Inbound, link.Inbound)
	return f
}

// take replaces figures of the link by those that the origin reported, which are more exact.
func (f *flow) take(before, after *status.InboundPath) {
	if before == nil || after == nil || after.AtS < before.AtS {
		return
	}
	f.link.full = 0
	if span := after.AtS - before.AtS; span > 0 {
		f.link.full = min(1, max(0, after.FullS-before.FullS)/span)
		f.link.packets = float64(less(after.Sent, before.Sent))
		f.link.loss = float64(less(after.Lost, before.Lost)) / max(1, f.link.packets)
	}
	if after.PathMbit != nil {
		f.link.capacity = *after.PathMbit
	}
}

func (s *Snapshot) mirrorDiagnosis(f *flow, before, m status.Mirror, link status.Link) Finding {
	if f.lock < lockMuch && m.Cause == status.CauseForeignWriter {
		return s.foreignWriter(f, before, m)
	}
	if f.hz == 0 && f.lock < lockMuch && (f.cause == "" || f.allLate()) && f.unread == "" {
		switch rests := f.rests(m.DueMs); {
		case !rests:
			return s.stopped(m, link)
		case !f.allLate():
			return s.well(f, m, link, fmt.Sprintf("%s rests, as it does now and then", s.Name()))
		}
	}
	unclear, ageless := s.unknownAge(f, m, link)
	if ageless && !f.hosts.waits.starves() { // waiting for a CPU also makes the clock unknown
		return unclear
	}
	if r, ok := f.diagnosis(); ok {
		return s.known(f, r, m)
	}
	if ageless {
		return unclear
	}
	over := s.Age != nil && s.Age.OverBudget >= shortfall
	switch {
	case overdue(m.DueMs, m.QoS) && m.InFlight == 0:
		return s.stopped(m, link)
	case overdue(m.DueMs, m.QoS):
		return f.stalled()
	case over && f.hosts.waits.starves():
		return f.starved()
	case over:
		return Finding{Cause: status.CausePublisherSlow, Text: s.Name() + " rests now and then for longer than usual",
			Evidence: []string{f.rateText(), fmt.Sprintf("the next frame was due for longer than the budget %.0f %% of the time", 100*s.Age.OverBudget)},
			Fix:      "look at the publisher on " + s.Host}
	}
	return s.well(f, m, link, m.Name+" is as fresh as its origin and the link allow")
}

// linkText returns the state of the route of the frames, as text.
func linkText(f *flow, link status.Link) string {
	rest := fmt.Sprintf("clock ± %s", ui.Millis(link.ClockUncertaintyMs))
	if f.link.isHub {
		return fmt.Sprintf("link: through the hub, round trip %s, %s", ui.Millis(link.RTTms), rest)
	}
	if link.OtherWay != "" {
		rest += "; " + link.OtherWay
	}
	return fmt.Sprintf("link: round trip %s, %.1f %% lost, %s", ui.Millis(link.RTTms), 100*f.link.loss, rest)
}

// known adds facts about the mirror that only this host has.
func (s *Snapshot) known(f *flow, r Finding, m status.Mirror) Finding {
	switch {
	case r.Cause == status.CauseReceiverSlow && f.lock >= lockMuch:
		r.Text = "a program on this host holds the lock of " + m.Name
		if s.File.Holder != "" {
			r.Evidence = append(r.Evidence, "it is held by "+s.File.Holder)
		}
	case r.Cause == m.Cause && m.Reason != "":
		r.Text = m.Name + " takes no frame: " + m.Reason
		r.Evidence = append(s.fileEvidence(m.Cause), r.Evidence...)
		r.Fix = cmp.Or(s.fixOf(m), r.Fix)
	case r.Cause == status.CausePublisherSlow:
		r.Evidence = append(r.Evidence, fmt.Sprintf("the deadline is %s", unit.Time(m.QoS.Deadline)))
	}
	return r
}

// unknownAge returns the finding that ages are unknown because the origin's clock is not known well
// enough yet, or false if ages are known.
func (s *Snapshot) unknownAge(f *flow, m status.Mirror, link status.Link) (Finding, bool) {
	if f.frames.Delivered == 0 || m.AgeMs != nil && f.link.clockError <= f.budget() {
		return Finding{}, false
	}
	r := Finding{Cause: status.CauseClock, Text: "how old the frames of " + s.Name() + " are is not known: the clock of " + s.Host + " is not",
		Evidence: []string{f.rateText(), f.outcomeText()}, Fix: "ask again in a moment: the daemon learns the clock from packets that go both ways"}
	if m.AgeMs != nil {
		r.Text = fmt.Sprintf("the clock of %s is known to ± %s only, and the budget is %s", s.Host, ui.Millis(link.ClockUncertaintyMs), unit.Time(m.QoS.EffectiveBudget()))
		r.Evidence = append(r.Evidence, fmt.Sprintf("the round trip is %s: half of it is the uncertainty at best", ui.Millis(link.RTTms)))
		r.Fix = "a longer budget, or a link with a shorter round trip"
	}
	return r, true
}

// foreignWriter returns the finding that another program writes into the mirror too.
func (s *Snapshot) foreignWriter(f *flow, before, m status.Mirror) Finding {
	r := Finding{Cause: status.CauseForeignWriter, Text: "another program writes into " + m.Name + " too: its readers get the frames of both, in any order",
		Evidence: []string{
			m.Reason,
			fmt.Sprintf("in %.3g s: %d frames of another, %d of this daemon", f.s, less(m.Foreign, before.Foreign), f.frames.Delivered+f.frames.LateKept),
		},
		Fix: fmt.Sprintf("end one of them, or give its mirror another name with --as: fuser -v /dev/shm/achshm-%s, as root, names the processes that have it open", m.Name)}
	return r
}

// stopped returns the finding that nothing is put into the channel.
func (s *Snapshot) stopped(m status.Mirror, link status.Link) Finding {
	f := Finding{Cause: status.CausePublisherStopped, Text: "nothing is put into " + s.Name(), Fix: "on " + s.Host + ": start the publisher of " + s.Channel + " again; achbridge why " + s.Channel + " there names its processes"}
	if m.AgeMs != nil {
		f.Text += fmt.Sprintf(": its newest frame is %s old", ui.Millis(*m.AgeMs))
	}
	if m.Offered == 0 && m.Seq == 0 {
		f.Evidence = append(f.Evidence, "it never had a frame")
	} else {
		f.Evidence = append(f.Evidence, fmt.Sprintf("the mirror has frame %d, and %s has put none since", m.Seq, s.Host))
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("the link is up, with a round trip of %s", ui.Millis(link.RTTms)))
	return f
}

func (s *Snapshot) well(f *flow, m status.Mirror, link status.Link, text string) Finding {
	r := Finding{Cause: Well, Text: text}
	if f.hz > 0 {
		r.Evidence = append(r.Evidence, f.rateText(), f.outcomeText())
	}
	if s.Age != nil {
		r.Evidence = append(r.Evidence, fmt.Sprintf("age: %s on average, p99 %s, budget %s", ui.Millis(s.Age.MeanMs), ui.Millis(s.Age.P99Ms), unit.Time(m.QoS.EffectiveBudget())))
	}
	r.Evidence = append(r.Evidence, linkText(f, link))
	if m.PeriodMs != nil && m.DueMs != nil && *m.PeriodMs > 1000*f.budget() {
		r.Evidence = append(r.Evidence, fmt.Sprintf("it gets older than its budget because it comes only every %s; the next frame is due for %s", ui.Millis(*m.PeriodMs), ui.Millis(*m.DueMs)))
	}
	return r
}
