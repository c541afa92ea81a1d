package main

import (
	"cmp"
	"fmt"

	"achbridge/bridge"
)

// origin looks at a channel of this host: its file, its publisher, the rules, and how
// it gets to those who read it.
func (s *snapshot) origin() []finding {
	var list []finding
	c, there := localOf(s.after, s.channel)
	if f, bad := s.localFile(c, there); bad {
		return []finding{f}
	}
	before, _ := localOf(s.before, s.channel)
	hz := float64(less(c.Seq, before.Seq)) / s.apart.Seconds()
	if hz == 0 && s.file.mirror {
		return []finding{s.unfed()}
	}
	if hz == 0 {
		list = append(list, s.silentPublisher(c))
	}
	list = append(list, s.pushFindings()...)
	readers := 0
	for _, e := range s.after.Exports {
		if e.Channel == s.channel {
			readers++
			list = append(list, s.exportFlow(e, hz)...)
		}
	}
	switch {
	case c.Cause == bridge.CauseExportRule && len(s.pushes()) == 0:
		list = append([]finding{s.hidden(c)}, list...)
	case len(list) == 0 || !s.someBad(list):
		list = append([]finding{s.allWell(c, readers, hz)}, list...)
	}
	return list
}

// someBad reports that one of the findings is more than a note.
func (s *snapshot) someBad(list []finding) bool {
	for _, f := range list {
		if f.Cure != "" {
			return true
		}
	}
	return false
}

func (s *snapshot) localFile(c bridge.LocalStatus, there bool) (finding, bool) {
	switch {
	case !there && !s.file.there:
		return finding{Cause: bridge.CauseNoChannel, Text: "there is no channel " + s.channel + " on this host",
			Cure: "start its publisher, or achbridge channel create " + s.channel}, true
	case !there:
		return finding{Cause: bridge.CauseOther, Text: "the daemon does not know " + s.channel + " yet", Cure: "ask again"}, true
	case c.Cause == bridge.CauseFileMode || c.Cause == bridge.CauseCorrupt:
		return finding{Cause: c.Cause, Text: "the daemon cannot use " + s.channel + ": " + c.Reason, Evidence: s.fileEvidence(c.Cause), Cure: s.cure(c.Cause)}, true
	case c.Reason != "" && c.Cause != bridge.CauseExportRule:
		return finding{Cause: c.Cause, Text: s.channel + " is not offered: " + c.Reason, Cure: s.cure(c.Cause)}, true
	}
	return finding{}, false
}

// unfed is a mirror's file that stayed here when nobody asked for the mirror any more, or
// when the host was gone that pushed it.
func (s *snapshot) unfed() finding {
	f := finding{Cause: bridge.CausePeerMissing, Text: s.channel + " is a mirror that nothing feeds now: nothing asks for it here, and no linked host pushes it",
		Cure: "look whether the host that it is of runs; or achbridge mirror HOST/CHANNEL --as " + s.channel}
	for _, v := range s.rules {
		if v.Verb == "accept" {
			f.Evidence = append(f.Evidence, v.Result)
		}
	}
	for _, p := range s.after.Peers {
		if p.State != "linked" {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s is not linked: %s", p.Host, cmp.Or(p.Error, p.State)))
		}
	}
	return f
}

func (s *snapshot) silentPublisher(c bridge.LocalStatus) finding {
	f := finding{Cause: bridge.CausePublisherStopped, Text: "nothing is put into " + s.channel, Cure: "look at its publisher"}
	f.Evidence = append(f.Evidence, fmt.Sprintf("it stays at frame %d for %.3g s", c.Seq, s.apart.Seconds()))
	if c.Seq == 0 {
		f.Evidence[0] = "it never had a frame"
	}
	if s.file.holder != "" {
		f.Evidence = append(f.Evidence, "its lock is held by "+s.file.holder)
		f.Cure = "let that process go on, or end it"
	}
	return f
}

// hidden is a channel that nobody may read, and that is pushed to nobody.
func (s *snapshot) hidden(c bridge.LocalStatus) finding {
	f := finding{Cause: bridge.CauseExportRule, Text: s.channel + " is offered to nobody: " + c.Reason, Cure: s.cure(bridge.CauseExportRule)}
	for _, v := range s.rules {
		if v.Verb == "export" && !v.Applies {
			f.Text = s.channel + ": " + v.Result
			f.Evidence = append(f.Evidence, cmp.Or(v.Rule, "export")+", "+v.From)
		}
	}
	return f
}

func (s *snapshot) pushes() (list []bridge.PushStatus) {
	for _, p := range s.after.Pushes {
		if p.Channel == s.channel {
			list = append(list, p)
		}
	}
	return list
}

// pushFindings are the pushes of the channel that do not work.
func (s *snapshot) pushFindings() (list []finding) {
	for _, p := range s.pushes() {
		if p.State == "accepted" {
			continue
		}
		if f, ok := s.unlinked(p.Host); ok {
			f.Text = "it is pushed to " + p.Host + ": " + f.Text
			list = append(list, f)
			continue
		}
		f := finding{Cause: p.Cause, Text: fmt.Sprintf("%s does not take %s: %s", p.Host, s.channel, cmp.Or(p.Reason, "no answer yet"))}
		if cure := s.cure(p.Cause); cure != "" {
			f.Cure = "on " + p.Host + ": " + cure
		} else {
			f.Cause, f.Cure = bridge.CauseOther, "ask again"
		}
		list = append(list, f)
	}
	return list
}

// exportFlow is how the channel gets to one reader.
func (s *snapshot) exportFlow(e bridge.ExportStatus, hz float64) []finding {
	if l, ok := linkOf(s.after, e.Peer); ok && l.State == "silent" {
		f, _ := s.unlinked(e.Peer)
		return []finding{f}
	}
	var old bridge.ExportStatus
	for _, o := range s.before.Exports {
		if o.Channel == e.Channel && o.Peer == e.Peer {
			old = o
		}
	}
	f := s.flowTo(e, old, hz)
	if r, ok := f.taken(e); ok {
		return append([]finding{r}, f.notes(r.Cause)...)
	}
	if r, ok := f.short(); hz > 0 && ok {
		return append([]finding{r}, f.notes(r.Cause)...)
	}
	return f.notes(causeWell)
}

func (s *snapshot) flowTo(e, old bridge.ExportStatus, hz float64) flow {
	link, _ := linkOf(s.after, e.Peer)
	was, _ := linkOf(s.before, e.Peer)
	f := flow{
		what: e.Channel, to: "to " + e.Peer, s: s.apart.Seconds(), hz: hz, frames: grown(old.Accounts, e.Accounts), qos: e.QoS, bytes: e.Bytes,
		origin: s.host, here: s.after.Host, load: s.load,
		way: link.RTTms / 2000, full: min(1, max(0, link.FullS-was.FullS)/s.apart.Seconds()),
	}
	if link.PathMbit != nil {
		f.path = *link.PathMbit
	}
	lost, sent := less(link.Lost, was.Lost), less(link.Sent, was.Sent)
	f.packets = float64(sent)
	f.loss = float64(lost) / max(1, f.packets)
	f.mbit = float64(less(link.SentBytes, was.SentBytes)) * 8 / 1e6 / f.s
	return f
}

// taken is what the reader's host does with the frames, or what keeps them from being
// read here.
func (f *flow) taken(e bridge.ExportStatus) (finding, bool) {
	switch {
	case e.Reason != "":
		return finding{Cause: bridge.CauseReceiverSlow, Text: f.what + " cannot be read: " + e.Reason,
			Cure: "let the process that holds its lock go on, or end it"}, true
	case f.frames.Refused > 0 && float64(f.frames.Refused) >= shortfall*float64(f.frames.Offered):
		return finding{Cause: bridge.CauseOther, Text: e.Peer + " cannot put what comes", Evidence: []string{f.fateText()},
			Cure: "on " + e.Peer + ": achbridge why its mirror"}, true
	}
	return finding{}, false
}

func (s *snapshot) allWell(c bridge.LocalStatus, readers int, hz float64) finding {
	f := finding{Cause: causeWell, Text: fmt.Sprintf("%s gets to all %d hosts that read it", s.channel, readers)}
	switch readers {
	case 0:
		f.Text = s.channel + " is offered, and nobody reads it"
	case 1:
		f.Text = s.channel + " gets to the host that reads it"
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("it gets %.3g frames a second, and is at frame %d", hz, c.Seq))
	for _, e := range s.after.Exports {
		if e.Channel == s.channel {
			l, _ := linkOf(s.after, e.Peer)
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %s delivered, round trip %s", e.Peer, deliveredText(e.Accounts), millis(l.RTTms)))
		}
	}
	return f
}

func localOf(s bridge.Status, channel string) (bridge.LocalStatus, bool) {
	for _, c := range s.Locals {
		if c.Channel == channel {
			return c, true
		}
	}
	return bridge.LocalStatus{}, false
}
