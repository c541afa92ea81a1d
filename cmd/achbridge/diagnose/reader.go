package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/config"
)

// Snapshot is all that a verdict on one channel rests on: two looks at the node some
// time apart, and what was asked meanwhile. It is a value: diagnose asks nobody.
type Snapshot struct {
	Host, Channel string // as the origin calls them
	Self          bool   // the origin is this host
	Apart         time.Duration
	Before, After status.Report
	Age           *status.AgeFigures // of the mirror, between the looks; nil: not known
	Rules         []config.Judgement // what the configuration says of the channel
	Offers        []string           // channels that the origin offers to us
	Told          Word               // what the origin says why it does not offer this one
	Around        Surroundings
	File          FileFacts // of the channel here, or of its mirror
	Load          string    // of this host
}

// Word is what a peer answered, empty when it did not.
type Word struct {
	Cause status.Cause
	Text  string
}

// Surroundings are what discovery and the network tell of the origin when there is no
// link to it.
type Surroundings struct {
	Discovery bool     // it looks for peers by multicast
	Seen      []string // hosts of our network
	Far       string   // why a host of that name is not dialled,
	FarCure   string   // and what to do
	Stranger  string   // the network of a host of that name, when it is not ours
	Network   string   // ours
	Multicast []string // what is wrong with it on this host
	Answers   string   // where a node answers that discovery has not found
	Ended     string   // the day on which our own certificate did; "" while it is good
	Revoked   bool     // our own certificate is
}

// FileFacts are what the file of a channel on this host says.
type FileFacts struct {
	There  bool
	Mirror bool   // the daemon made it
	Mode   string // mode and owner
	Daemon string // the user that the daemon runs as
	Holder string // the process that holds its lock
	Free   string // room in the channel directory
}

// Finding is one thing that is so, for people and for programs.
type Finding struct {
	Cause    status.Cause `json:"cause"`
	Text     string       `json:"text"`
	Evidence []string     `json:"evidence"`
	Cure     string       `json:"cure,omitempty"`
}

// Well says that nothing is the matter.
const Well status.Cause = "well"

// Findings names what keeps a channel from being fresh: the first finding is the
// verdict, those behind it are worth knowing too. There is always one.
func Findings(s Snapshot) []Finding {
	var list []Finding
	if s.Self {
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

func (s *Snapshot) Name() string { return s.Host + "/" + s.Channel }

// reader looks at a channel of another host that is, or should be, mirrored here.
func (s *Snapshot) reader() []Finding {
	m, wanted := MirrorOf(s.After, s.Host, s.Channel)
	if !wanted && !s.wished() {
		return append([]Finding{s.unwanted()}, s.offerNotes()...)
	}
	if f, ok := s.unlinked(s.Host); ok {
		return []Finding{f}
	}
	switch {
	case m.State == status.MirrorRefused:
		return []Finding{s.refused(m)}
	case !wanted, m.State == status.MirrorWaiting:
		return []Finding{s.notOffered(m)}
	}
	return s.mirrorFlow(m)
}

// wished reports whether the configuration asks for the channel.
func (s *Snapshot) wished() bool {
	for _, v := range s.Rules {
		if v.Verb == "mirror" && v.Applies {
			return true
		}
	}
	return false
}

func (s *Snapshot) unwanted() Finding {
	f := Finding{Cause: status.CauseRule, Text: s.Name() + " is not mirrored here: no rule names it", Cure: "achbridge mirror " + s.Name()}
	for _, v := range s.Rules {
		if v.Verb != "mirror" {
			continue
		}
		f.Text = s.Name() + " is " + v.Result
		if v.Rule != "" {
			f.Evidence = append(f.Evidence, v.Rule+", "+v.From)
			f.Cure = "change " + v.Rule + " (" + v.From + "), then achbridge reload"
		}
	}
	return f
}

// offerNotes say what stands behind a rule that is in the way.
func (s *Snapshot) offerNotes() []Finding {
	if f, ok := s.unlinked(s.Host); ok {
		return []Finding{f}
	}
	if f := s.notOffered(status.Mirror{}); f.Cause != status.CauseOther {
		return []Finding{f}
	}
	return nil
}

// refused is a mirror that cannot be.
func (s *Snapshot) refused(m status.Mirror) Finding {
	f := Finding{Cause: m.Cause, Text: "there is no mirror of " + s.Name() + ": " + m.Reason, Cure: s.cure(m.Cause)}
	if m.Cause == status.CauseFrameSize {
		f.Text = "no frame of " + s.Name() + " can be put: " + m.Reason
		f.Cure = "achbridge channel create " + m.Name + " --replace, with --frames and --size as said; programs that use it must open it again"
	}
	f.Evidence = s.fileEvidence(m.Cause)
	return f
}

// notOffered is a channel that the linked origin does not have for us.
func (s *Snapshot) notOffered(m status.Mirror) Finding {
	if slices.Contains(s.Offers, s.Channel) {
		return Finding{Cause: status.CauseOther, Text: fmt.Sprintf("%s is offered, and about to be mirrored: %s", s.Name(), cmp.Or(m.Reason, "ask again"))}
	}
	f := Finding{Cause: status.CauseNoChannel, Text: s.Host + " does not offer " + s.Channel}
	if s.Told.Cause != "" {
		f.Cause = s.Told.Cause
		f.Text += "; it says: " + s.Told.Text
	}
	f.Evidence = append(f.Evidence, offersText(s.Host, s.Offers))
	f.Cure = "on " + s.Host + ": achbridge why " + s.Channel
	if f.Cause != status.CauseNoChannel {
		f.Cure = "on " + s.Host + ": " + s.cure(f.Cause)
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
func (s *Snapshot) cure(cause status.Cause) string {
	switch cause {
	case status.CauseFileMode:
		return "give the channel a group that achbridge is in, and mode 0660: readers write its lock, which is in the file"
	case status.CauseShmFull:
		return "remove what fills /dev/shm (achbridge channel ls, rm), or enlarge it: mount -o remount,size=… /dev/shm"
	case status.CauseCorrupt:
		return "achbridge channel rm " + s.Channel + ", and let its publisher make it anew"
	case status.CauseExportRule:
		return "change the export rules, then achbridge reload; achbridge explain " + s.Channel + " names the one that counts"
	case status.CauseAcceptRule:
		return "change its accept rules, then achbridge reload; achbridge explain there names the one that counts"
	case status.CauseLoop:
		return "mirror it from the host that it is of"
	case status.CauseBadFrame:
		return "have its publisher put frames of 64 MiB at most, and only such as it has written"
	case status.CauseLimit:
		return "mirror less of that host"
	case status.CauseReceiverSlow:
		return "let the process that holds the lock go on, or end it"
	}
	return ""
}

// fileEvidence is what the channel's file says about a cause.
func (s *Snapshot) fileEvidence(cause status.Cause) (list []string) {
	switch {
	case cause == status.CauseFileMode && s.File.There:
		list = append(list, "its file has "+s.File.Mode+"; the daemon runs as "+s.File.Daemon)
	case cause == status.CauseShmFull && s.File.Free != "":
		list = append(list, s.File.Free)
	}
	return list
}

func MirrorOf(s status.Report, host, channel string) (status.Mirror, bool) {
	for _, m := range s.Mirrors {
		if m.Host == host && m.Channel == channel {
			return m, true
		}
	}
	return status.Mirror{}, false
}

func LinkOf(s status.Report, host string) (status.Link, bool) {
	for _, l := range s.Links {
		if l.Peer == host {
			return l, true
		}
	}
	return status.Link{}, false
}
