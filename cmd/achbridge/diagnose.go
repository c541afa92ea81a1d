package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"achbridge/bridge"
)

// snapshot is all that a verdict on one channel rests on: two looks at the node some
// time apart, and what was asked meanwhile. It is a value: diagnose asks nobody.
type snapshot struct {
	host, channel string // as the origin calls them
	self          bool   // the origin is this host
	apart         time.Duration
	before, after bridge.Status
	age           *bridge.AgeFigures // of the mirror, between the looks; nil: not known
	rules         []verdict          // what the configuration says of the channel
	offers        []string           // channels that the origin offers to us
	told          word               // what the origin says why it does not offer this one
	around        surroundings
	file          fileFacts // of the channel here, or of its mirror
	load          string    // of this host
}

// word is what a peer answered, empty when it did not.
type word struct {
	cause bridge.Cause
	text  string
}

// surroundings are what discovery and the network tell of the origin when there is no
// link to it.
type surroundings struct {
	discovery bool     // it looks for peers by multicast
	seen      []string // hosts of our network
	stranger  string   // the network of a host of that name, when it is not ours
	network   string   // ours
	multicast []string // what is wrong with it on this host
	answers   string   // where a node answers that discovery has not found
	ended     string   // the day on which our own certificate did; "" while it is good
	revoked   bool     // our own certificate is
}

// fileFacts are what the file of a channel on this host says.
type fileFacts struct {
	there  bool
	mirror bool   // the daemon made it
	mode   string // mode and owner
	daemon string // the user that the daemon runs as
	holder string // the process that holds its lock
	free   string // room in the channel directory
}

// finding is one thing that is so, for people and for programs.
type finding struct {
	Cause    bridge.Cause `json:"cause"`
	Text     string       `json:"text"`
	Evidence []string     `json:"evidence"`
	Cure     string       `json:"cure,omitempty"`
}

// causeWell says that nothing is the matter.
const causeWell bridge.Cause = "well"

// diagnose names what keeps a channel from being fresh: the first finding is the
// verdict, those behind it are worth knowing too. There is always one.
func diagnose(s snapshot) []finding {
	var list []finding
	if s.self {
		list = s.origin()
	} else {
		list = s.reader()
	}
	for i := range list {
		if list[i].Evidence == nil {
			list[i].Evidence = []string{}
		}
	}
	return list
}

func (s *snapshot) name() string { return s.host + "/" + s.channel }

// reader looks at a channel of another host that is, or should be, mirrored here.
func (s *snapshot) reader() []finding {
	m, wanted := mirrorOf(s.after, s.host, s.channel)
	if !wanted && !s.wished() {
		return append([]finding{s.unwanted()}, s.offerNotes()...)
	}
	if f, ok := s.unlinked(s.host); ok {
		return []finding{f}
	}
	switch {
	case m.State == "refused":
		return []finding{s.refused(m)}
	case !wanted, m.State == "waiting":
		return []finding{s.notOffered(m)}
	}
	return s.mirrorFlow(m)
}

// wished reports whether the configuration asks for the channel.
func (s *snapshot) wished() bool {
	for _, v := range s.rules {
		if v.Verb == "mirror" && v.Applies {
			return true
		}
	}
	return false
}

func (s *snapshot) unwanted() finding {
	f := finding{Cause: bridge.CauseRule, Text: s.name() + " is not mirrored here: no rule names it", Cure: "achbridge mirror " + s.name()}
	for _, v := range s.rules {
		if v.Verb != "mirror" {
			continue
		}
		f.Text = s.name() + " is " + v.Result
		if v.Rule != "" {
			f.Evidence = append(f.Evidence, v.Rule+", "+v.From)
			f.Cure = "change " + v.Rule + " (" + v.From + "), then achbridge reload"
		}
	}
	return f
}

// offerNotes say what stands behind a rule that is in the way.
func (s *snapshot) offerNotes() []finding {
	if f, ok := s.unlinked(s.host); ok {
		return []finding{f}
	}
	if f := s.notOffered(bridge.MirrorStatus{}); f.Cause != bridge.CauseOther {
		return []finding{f}
	}
	return nil
}

// refused is a mirror that cannot be.
func (s *snapshot) refused(m bridge.MirrorStatus) finding {
	f := finding{Cause: m.Cause, Text: "there is no mirror of " + s.name() + ": " + m.Reason, Cure: s.cure(m.Cause)}
	f.Evidence = s.fileEvidence(m.Cause)
	return f
}

// notOffered is a channel that the linked origin does not have for us.
func (s *snapshot) notOffered(m bridge.MirrorStatus) finding {
	if slices.Contains(s.offers, s.channel) {
		return finding{Cause: bridge.CauseOther, Text: fmt.Sprintf("%s is offered, and about to be mirrored: %s", s.name(), cmp.Or(m.Reason, "ask again"))}
	}
	f := finding{Cause: bridge.CauseNoChannel, Text: s.host + " does not offer " + s.channel}
	if s.told.cause != "" {
		f.Cause = s.told.cause
		f.Text += "; it says: " + s.told.text
	}
	f.Evidence = append(f.Evidence, offersText(s.host, s.offers))
	f.Cure = "on " + s.host + ": achbridge why " + s.channel
	if f.Cause != bridge.CauseNoChannel {
		f.Cure = "on " + s.host + ": " + s.cure(f.Cause)
	}
	return f
}

func offersText(host string, offers []string) string {
	const most = 8
	switch {
	case len(offers) == 0:
		return host + " offers no channel"
	case len(offers) > most:
		return fmt.Sprintf("%s offers %s and %d more", host, strings.Join(offers[:most], ", "), len(offers)-most)
	}
	return host + " offers " + strings.Join(offers, ", ")
}

// cure is what to do about a cause that lies on the host it is told to.
func (s *snapshot) cure(cause bridge.Cause) string {
	switch cause {
	case bridge.CauseFileMode:
		return "give the channel a group that achbridge is in, and mode 0660: readers write its lock, which is in the file"
	case bridge.CauseShmFull:
		return "remove what fills /dev/shm (achbridge channel ls, rm), or enlarge it: mount -o remount,size=… /dev/shm"
	case bridge.CauseCorrupt:
		return "achbridge channel rm " + s.channel + ", and let its publisher make it anew"
	case bridge.CauseExportRule:
		return "change the export rules, then achbridge reload; achbridge explain " + s.channel + " names the one that counts"
	case bridge.CauseAcceptRule:
		return "change its accept rules, then achbridge reload; achbridge explain there names the one that counts"
	case bridge.CauseLoop:
		return "mirror it from the host that it is of"
	case bridge.CauseLimit:
		return "mirror less of that host"
	case bridge.CauseReceiverSlow:
		return "let the process that holds the lock go on, or end it"
	}
	return ""
}

// fileEvidence is what the channel's file says about a cause.
func (s *snapshot) fileEvidence(cause bridge.Cause) (list []string) {
	switch {
	case cause == bridge.CauseFileMode && s.file.there:
		list = append(list, "its file has "+s.file.mode+"; the daemon runs as "+s.file.daemon)
	case cause == bridge.CauseShmFull && s.file.free != "":
		list = append(list, s.file.free)
	}
	return list
}

func mirrorOf(s bridge.Status, host, channel string) (bridge.MirrorStatus, bool) {
	for _, m := range s.Mirrors {
		if m.Host == host && m.Channel == channel {
			return m, true
		}
	}
	return bridge.MirrorStatus{}, false
}

func linkOf(s bridge.Status, host string) (bridge.LinkStatus, bool) {
	for _, l := range s.Links {
		if l.Peer == host {
			return l, true
		}
	}
	return bridge.LinkStatus{}, false
}
