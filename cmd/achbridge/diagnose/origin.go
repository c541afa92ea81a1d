package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
)

// origin returns the findings about a channel of this host: its file, its publisher, the
// rules, and how its frames get to each host that reads it.
func (s *Snapshot) origin() []Finding {
	var list []Finding
	m, _ := MirrorOf(s.After, s.Host, s.Channel)
	if m.Merge != nil {
		return []Finding{s.mergeFinding(m)}
	}
	c, there := LocalOf(s.After, s.Channel)
	if !there {
		return []Finding{s.unknownHere()}
	}
	if f, bad := s.localFile(c); bad {
		return []Finding{f}
	}
	before, _ := LocalOf(s.Before, s.Channel)
	if f, hangs := s.hangingPut(before, c); hangs {
		return []Finding{f}
	}
	hz := float64(less(c.Seq, before.Seq)) / s.Apart.Seconds()
	switch {
	case m.Mux != nil:
		list = append(list, muxFinding(m))
	case hz == 0 && s.File.Mirror:
		return []Finding{s.unfed()}
	case hz == 0 && !s.restsHere() || s.overdueHere():
		list = append(list, s.silentPublisher(c, hz))
	}
	list = append(list, s.pushFindings()...)
	readers := 0
	for _, e := range s.After.Exports {
		if e.Channel == s.Channel {
			readers++
			list = append(list, s.exportFlow(e, hz)...)
		}
	}
	switch {
	case c.Cause == status.CauseExportRule && len(s.Pushes()) == 0:
		list = append([]Finding{s.hidden(c)}, list...)
	case m.Mux != nil:
	case !slices.ContainsFunc(list, func(f Finding) bool { return f.Fix != "" }): // all are notes
		list = append([]Finding{s.allWell(c, readers, hz)}, list...)
	}
	return list
}

// unknownHere returns the finding that the daemon does not know the channel.
func (s *Snapshot) unknownHere() Finding {
	if s.File.Cause != "" { // the daemon does not list a file that was damaged before the daemon started
		return Finding{Cause: s.File.Cause, Text: "the daemon cannot use " + s.Channel + ": " + s.File.Wrong, Fix: fix(s.File.Cause, s.Channel)}
	}
	if s.File.There {
		return Finding{Cause: status.CauseOther, Text: "the daemon does not know " + s.Channel + " yet", Fix: "ask again"}
	}
	return Finding{Cause: status.CauseNoChannel, Text: "there is no channel " + s.Channel + " on this host",
		Fix: startPublisher(s.Channel)}
}

// startPublisher returns the fix for a channel that does not exist, on its host.
func startPublisher(channel string) string {
	return "start its publisher, or achbridge channel create " + channel
}

// localFile returns the finding why a channel of this host is not offered to others.
func (s *Snapshot) localFile(c status.Local) (Finding, bool) {
	switch {
	case c.Cause == status.CauseFileMode || c.Cause == status.CauseCorrupt || isForeign(c.Cause):
		return Finding{Cause: c.Cause, Text: "the daemon cannot use " + s.Channel + ": " + c.Reason, Evidence: s.fileEvidence(c.Cause), Fix: fix(c.Cause, s.Channel)}, true
	case c.Reason != "" && c.Cause != status.CauseExportRule:
		f := Finding{Cause: c.Cause, Text: s.Channel + " is not offered: " + c.Reason, Fix: fix(c.Cause, s.Channel)}
		if c.Cause == status.CauseLimit {
			f.Fix = "make it with smaller or fewer frames, or have fewer channels on this host, as the reason says"
		}
		return f, true
	}
	return Finding{}, false
}

// unfed returns the finding that a mirror's file has no source: no request names the mirror any more, or
// the host that pushed the channel is gone.
func (s *Snapshot) unfed() Finding {
	f := Finding{Cause: status.CausePeerMissing, Text: s.Channel + " is a mirror that nothing feeds now: nothing asks for it here, and no linked host pushes it",
		Fix: "check that its origin runs; or achbridge mirror HOST/CHANNEL --as " + s.Channel}
	for _, v := range s.Rules {
		if v.Kind == "accept" {
			f.Evidence = append(f.Evidence, v.Result)
		}
	}
	for _, p := range s.After.Peers {
		if p.State != status.PeerLinked {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s is not linked: %s", p.Host, cmp.Or(p.Error, p.State.String())))
		}
	}
	return f
}

// restsHere reports whether the channel rests no longer than usual, as far as the hosts that
// read it report.
func (s *Snapshot) restsHere() bool {
	isKnown := func(e status.Subscription) bool { return e.Channel == s.Channel && e.DueMs != nil }
	return slices.ContainsFunc(s.After.Exports, isKnown) && !s.overdueHere()
}

// overdueHere reports whether a reader's mirror is over its budget because nothing is put.
func (s *Snapshot) overdueHere() bool {
	return slices.ContainsFunc(s.After.Exports, func(e status.Subscription) bool { return e.Channel == s.Channel && overdue(e.DueMs, e.QoS) })
}

func (s *Snapshot) silentPublisher(c status.Local, hz float64) Finding {
	f := Finding{Cause: status.CausePublisherStopped, Text: "nothing is put into " + s.Channel, Fix: "look at its publisher"}
	f.Evidence = append(f.Evidence, fmt.Sprintf("it stays at frame %d for %.3g s", c.Seq, s.Apart.Seconds()))
	if hz > 0 {
		f.Text = "nothing is put into " + s.Channel + " any more"
		f.Evidence[0] = fmt.Sprintf("it has stopped at frame %d", c.Seq)
	}
	if c.Seq == 0 {
		f.Evidence[0] = "it never had a frame"
	}
	if text := InKernel(c); text != "" {
		f.Evidence = append(f.Evidence, text)
		return f
	}
	if s.File.Holder != "" {
		f.Evidence = append(f.Evidence, "its lock is held by "+s.File.Holder)
		f.Fix = "let that process go on, or end it"
	}
	return f
}

// hidden returns the finding that no host may read the channel, and that it is pushed to none.
func (s *Snapshot) hidden(c status.Local) Finding {
	f := Finding{Cause: status.CauseExportRule, Text: s.Channel + " is offered to nobody: " + c.Reason, Fix: fix(status.CauseExportRule, s.Channel)}
	for _, v := range s.Rules {
		if v.Kind == "export" && !v.Applies {
			f.Text = s.Channel + ": " + v.Result
			f.Evidence = append(f.Evidence, cmp.Or(v.Rule, "export")+", "+v.From)
		}
	}
	return f
}

func (s *Snapshot) Pushes() (list []status.Push) {
	for _, p := range s.After.Pushes {
		if p.Channel == s.Channel {
			list = append(list, p)
		}
	}
	return list
}

// pushFindings returns the findings about pushes of the channel that do not work.
func (s *Snapshot) pushFindings() (list []Finding) {
	for _, p := range s.Pushes() {
		if p.State == status.PushAccepted {
			continue
		}
		if p.Unauthenticated {
			list = append(list, pushByAchd(p))
			continue
		}
		if f, ok := s.unlinked(p.Host); ok {
			f.Text = "it is pushed to " + p.Host + ": " + f.Text
			list = append(list, f)
			continue
		}
		if p.Cause == status.CauseOtherMachine {
			list = append(list, Finding{Cause: p.Cause, Text: s.Channel + " is not pushed: " + p.Reason, Fix: acceptFix(s.Channel, p.Host)})
			continue
		}
		if p.Cause == status.CauseOperator {
			why, take, _ := strings.Cut(p.Reason, "; take it: ")
			list = append(list, Finding{Cause: p.Cause, Text: "it is pushed to " + p.Host + "/" + p.NameThere() + ", which has an operator lock: " + why, Fix: take})
			continue
		}
		f := Finding{Cause: p.Cause, Text: fmt.Sprintf("%s does not take %s: %s", p.Host, s.Channel, cmp.Or(p.Reason, "no answer yet"))}
		if f.Fix = fixAt(p.Host, p.Cause, p.NameThere()); f.Fix == "" {
			f.Cause, f.Fix = status.CauseOther, "ask again"
		}
		list = append(list, f)
	}
	return list
}

// exportFlow returns the findings about the channel on its link to one host that reads it.
func (s *Snapshot) exportFlow(e status.Subscription, hz float64) []Finding {
	if l, ok := LinkOf(s.After, e.Peer); ok && l.State == status.LinkSilent {
		f, _ := s.unlinked(e.Peer)
		return []Finding{f}
	}
	old, _ := first(s.Before.Exports, func(o status.Subscription) bool { return o.Channel == e.Channel && o.Peer == e.Peer })
	f := s.flowTo(e, old, hz)
	if r, ok := f.diagnosis(); ok && (hz > 0 || r.Cause != status.CauseOther) {
		if f.allLate() {
			r.Evidence = append([]string{f.lateText()}, r.Evidence...)
		}
		return append([]Finding{r}, f.notes(r.Cause)...)
	}
	return f.notes(Well)
}

func (s *Snapshot) flowTo(e, old status.Subscription, hz float64) flow {
	link, _ := LinkOf(s.After, e.Peer)
	was, _ := LinkOf(s.Before, e.Peer)
	f := flow{
		what: e.Channel, s: s.Apart.Seconds(), hz: hz, frames: e.FrameCounters.GrownBy(old.FrameCounters), qos: e.QoS, bytes: e.Bytes,
		link: linkUse{
			to: "to " + e.Peer, isHub: link.Way == status.WayHub, oneWay: link.RTTms / 2000, clockError: link.ClockUncertaintyMs / 1000,
			full: min(1, max(0, link.FullS-was.FullS)/s.Apart.Seconds()),
		},
		hosts: flowHosts{origin: s.Host, reader: e.Peer, here: s.After.Host, load: s.Load, waits: waitsOf(s.After, link, true)},
		lock:  (e.ReaderWaitS - old.ReaderWaitS) / s.Apart.Seconds(), cause: e.ReaderCause,
		avoidable: less(e.WithRoom, old.WithRoom), atHub: less(e.AtHub, old.AtHub),
	}
	if link.PathMbit != nil {
		f.link.capacity = *link.PathMbit
	}
	if e.Reason != "" {
		f.unread, f.why = cmp.Or(e.Cause, status.CauseOther), ": "+e.Reason
	}
	if e.OneWayDelayMs != nil {
		f.oneWayDelay = *e.OneWayDelayMs / 1000
	}
	lost, sent := less(link.Lost, was.Lost), less(link.Sent, was.Sent)
	f.link.packets = float64(sent)
	f.link.loss = float64(lost) / max(1, f.link.packets)
	f.link.mbit = float64(less(link.SentBytes, was.SentBytes)) * 8 / 1e6 / f.s
	return f
}

// Ach1xNote describes a channel of Ach 1.x that achbridge reads.
const Ach1xNote = "made with Ach 1.x: read-only"

func (s *Snapshot) allWell(c status.Local, readers int, hz float64) Finding {
	f := Finding{Cause: Well, Text: fmt.Sprintf("%s gets to all %d hosts that read it", s.Channel, readers)}
	switch readers {
	case 0:
		f.Text = s.Channel + " is offered, and nobody reads it"
	case 1:
		f.Text = s.Channel + " gets to the host that reads it"
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("it gets %.3g frames a second, and is at frame %d", hz, c.Seq))
	if c.Ach1x {
		f.Evidence = append(f.Evidence, Ach1xNote)
	}
	if text := InKernel(c); text != "" {
		f.Evidence = append(f.Evidence, text)
	}
	for _, e := range s.After.Exports {
		if e.Channel == s.Channel {
			l, _ := LinkOf(s.After, e.Peer)
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %s delivered, round trip %s", e.Peer, DeliveredText(e.FrameCounters), ui.Millis(l.RTTms)))
		}
	}
	return f
}
