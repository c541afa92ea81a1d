package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/config"
)

// Snapshot has all facts for the findings about one channel: two reports of the node, and the
// answers of other sources collected between them.
type Snapshot struct {
	Host, Channel string        // names at the origin
	Self          bool          // the origin is this host
	Apart         time.Duration // time between the two reports
	Before, After status.Report
	Age           *status.AgeFigures // ages of the mirror between the reports; nil means unknown
	Rules         []config.Judgement // the rules that apply to the channel
	Offers        []string           // channels that the origin offers to this host
	OriginReason  Word               // the origin's reason not to offer this channel
	Around        Surroundings
	File          FileFacts // file of the local channel or mirror
	Load          string    // load of this host, as text
}

// Word is the answer of a peer. Without a cause, Text is the reason why there is no answer.
type Word struct {
	Cause status.Cause
	Text  string
}

// Surroundings has the facts about an origin without a link, from discovery and the network.
type Surroundings struct {
	Discovery    bool     // discovery by multicast is on
	Seen         []string // hosts of our network that discovery found
	Far          string   // why a host of that name is not dialled; "" if there is none
	FarFix       string   // the fix for Far
	OtherNetwork string   // the network of a host of that name in another network; "" if there is none
	Network      string   // our network
	Searched     bool     // the network was searched for the host, so Multicast and Answers are valid
	Multicast    []string // what is wrong with multicast on this host
	Answers      string   // address at which the host answers although discovery has not found it
	Ended        string   // the day on which our certificate expired; "" while it is valid
	Revoked      bool     // our certificate is revoked
	Hub          string   // why the hub is not reached; "" if it is, or none is used
}

// FileFacts describes the file of a channel on this host.
type FileFacts struct {
	There  bool
	Mirror bool         // the daemon made it
	Mode   string       // mode and owner
	Daemon string       // the user that the daemon runs as
	Holder string       // the process that holds the channel's lock
	Free   string       // room in the channel directory
	Cause  status.Cause // why the file cannot be used as a channel; empty if it can
	Wrong  string       // the error that belongs to Cause
	Kernel string       // which programs open the kernel's channel of that name instead; empty if there is none
}

// Finding is one fact about a channel, for people and for programs.
type Finding struct {
	Cause    status.Cause `json:"cause"`
	Text     string       `json:"text"`
	Evidence []string     `json:"evidence"`
	Fix      string       `json:"cure,omitempty"`
}

// Well is the cause of a finding that nothing is wrong.
const Well status.Cause = "well"

// Findings returns the reasons why a channel is not fresh. The first finding is the diagnosis; it may
// be Well. The others are notes.
func Findings(s Snapshot) []Finding {
	var list []Finding
	if s.Self {
		list = s.origin()
		if c, there := LocalOf(s.After, s.Channel); there && c.Mismatch != nil {
			list = withMismatch(list, mismatch(c.Mismatch, s.Channel, s.Host))
		}
	} else {
		list = s.reader()
		if m, there := MirrorOf(s.After, s.Host, s.Channel); there && m.Mismatch != nil {
			list = withMismatch(list, mismatch(m.Mismatch, m.Name, s.Host))
		}
	}
	list = s.withHidden(s.withCopy(list))
	if s.After.NoInotify != "" {
		list = append(list, noInotify(s.After))
	}
	list = append(list, copies(s.After, func(host string) bool { return s.Self || host == s.Host })...)
	for i := range list {
		if list[i].Evidence == nil {
			list[i].Evidence = []string{}
		}
	}
	return list
}

func (s *Snapshot) Name() string { return s.Host + "/" + s.Channel }

// reader returns the findings about a channel of another host that is, or should be, mirrored
// here.
func (s *Snapshot) reader() []Finding {
	m, wanted := MirrorOf(s.After, s.Host, s.Channel)
	byAchd := rule.IsAchd(s.Host)
	switch {
	case !wanted && !s.isRequested() && byAchd:
		return []Finding{s.unwanted()}
	case !wanted && !s.isRequested():
		return append([]Finding{s.unwanted()}, s.offerNotes()...)
	case byAchd:
		return []Finding{s.byAchd(m)}
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

// isRequested reports whether the configuration requests the channel.
func (s *Snapshot) isRequested() bool {
	return slices.ContainsFunc(s.Rules, func(v config.Judgement) bool { return v.Kind == "mirror" && v.Applies })
}

func (s *Snapshot) unwanted() Finding {
	f := Finding{Cause: status.CauseRule, Text: s.Name() + " is not mirrored here: no rule names it", Fix: "achbridge mirror " + s.Name()}
	for _, v := range s.Rules {
		if v.Kind != "mirror" {
			continue
		}
		f.Text = s.Name() + " is " + v.Result
		if v.Rule != "" {
			f.Evidence = append(f.Evidence, v.Rule+", "+v.From)
			f.Fix = "change " + v.Rule + " (" + v.From + "), then achbridge reload"
		}
	}
	return f
}

// offerNotes returns further problems, in addition to a rule that keeps the channel from being mirrored.
func (s *Snapshot) offerNotes() []Finding {
	if f, ok := s.unlinked(s.Host); ok {
		return []Finding{f}
	}
	if f := s.notOffered(status.Mirror{}); f.Cause != status.CauseOther {
		return []Finding{f}
	}
	return nil
}

// refused returns the finding about a mirror that cannot be made or written.
func (s *Snapshot) refused(m status.Mirror) Finding {
	f := Finding{Cause: m.Cause, Text: "there is no mirror of " + s.Name() + ": " + m.Reason, Fix: s.fixOf(m)}
	if m.Cause == status.CauseFrameSize {
		f.Text = "no frame of " + s.Name() + " can be put: " + m.Reason
		f.Fix = "end the programs that use it, then achbridge channel create " + m.Name + " --replace, with --frames and --size as said"
	}
	switch {
	case m.Cause == status.CauseKernelMirror:
		f.Text = s.Name() + " is " + m.Reason
		f.Fix = "remove the reason, or set kernel: true, so that all programs use shared memory"
	case m.Cause == status.CauseOtherMachine:
		f.Fix = "on " + m.RefusedBy + ", " + acceptFix(m.Channel, s.After.Host)
	case m.RefusedBy != "":
		f.Fix = fixAt(m.RefusedBy, m.Cause, m.Channel)
	case isForeign(m.Cause):
		f.Fix = "give the mirror another name: --as NAME"
	}
	f.Evidence = s.fileEvidence(m.Cause)
	return f
}

// notOffered returns the finding about a channel that its linked origin does not offer to this host.
func (s *Snapshot) notOffered(m status.Mirror) Finding {
	if slices.Contains(s.Offers, s.Channel) {
		return Finding{Cause: status.CauseOther, Text: fmt.Sprintf("%s is offered, and about to be mirrored: %s", s.Name(), cmp.Or(m.Reason, "ask again"))}
	}
	f := Finding{Cause: status.CauseNoChannel, Text: s.Host + " does not offer " + s.Channel}
	switch {
	case s.OriginReason.Cause != "":
		f.Cause = s.OriginReason.Cause
		f.Text += "; it says: " + s.OriginReason.Text
	case s.OriginReason.Text != "":
		f.Text += "; the reason is unknown: " + s.OriginReason.Text
	}
	f.Evidence = append(f.Evidence, offersText(s.Host, s.Offers))
	switch {
	case f.Cause != status.CauseNoChannel:
		f.Fix = fixAt(s.Host, f.Cause, s.Channel)
	case s.OriginReason.Cause != "":
		f.Fix = "on " + s.Host + ": " + startPublisher(s.Channel)
	default:
		f.Fix = "on " + s.Host + ": achbridge why " + s.Channel
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

// isForeign reports whether a cause is an intact channel of another kind of Ach, which achbridge cannot use.
func isForeign(cause status.Cause) bool {
	return cause == status.CauseAch1x || cause == status.CauseAch32Bit || cause == status.CauseOtherLibc
}

// fixAt returns the fix for a cause at another host, or "" if there is none.
func fixAt(host string, cause status.Cause, channel string) string {
	text := fix(cause, channel)
	switch {
	case isForeign(cause):
		return fmt.Sprintf("on %s, run the achd that belongs to its Ach; then here: achbridge mirror achd://%s/%s", host, host, channel)
	case text == "":
		return ""
	}
	return "on " + host + ": " + text
}

// fix returns the fix for a cause, on the host of the cause, or "" if there is none. channel is the name of the channel
// or mirror there.
func fix(cause status.Cause, channel string) string {
	switch cause {
	case status.CauseFileMode:
		return "give the channel a group that achbridge is in, and mode 0660: readers write its lock, which is in the file"
	case status.CauseShmFull:
		return "remove what fills /dev/shm and nobody uses (achbridge channel ls, rm), or enlarge it: mount -o remount,size=… /dev/shm"
	case status.CauseShmShare:
		return "name the channel in a rule of its own, without a pattern: achbridge mirror HOST/CHANNEL"
	case status.CauseCorrupt:
		return "end the programs that use it, then achbridge channel rm " + channel + ": its publisher creates it again"
	case status.CauseAch1x, status.CauseAch32Bit, status.CauseOtherLibc:
		return "run the achd that belongs to its Ach on this host, and mirror achd://HOST/" + channel + " on the others, where HOST is this one"
	case status.CauseExportRule:
		return "change the export rules, then achbridge reload; achbridge check --explain " + channel + " names the rule that applies"
	case status.CauseAcceptRule:
		return "change its accept rules, then achbridge reload; achbridge check --explain CHANNEL there names the rule that applies"
	case status.CauseLoop:
		return "mirror it from its origin"
	case status.CauseBadFrame:
		return "have its publisher put frames of 64 MiB at most, and only frames that it has written completely"
	case status.CauseLimit:
		return "mirror less of that host"
	case status.CauseReceiverSlow:
		return "let the process that holds the lock go on, or end it"
	}
	return ""
}

// fixOf returns the fix for the cause of a mirror of this host, with the address of its channel filled in.
func (s *Snapshot) fixOf(m status.Mirror) string {
	if m.Cause == status.CauseFileMode {
		return "give its file the group of the daemon's control socket, and mode 0660; if it is left of an earlier mirror, remove it as root: achbridge channel rm " +
			m.Name + ": the daemon makes it again, with file_mode of the mirror's rule"
	}
	return strings.ReplaceAll(fix(m.Cause, m.Name), "HOST/CHANNEL", s.Name())
}

// fileEvidence returns the facts of the channel's file that support a cause.
func (s *Snapshot) fileEvidence(cause status.Cause) (list []string) {
	switch {
	case cause == status.CauseFileMode && s.File.There:
		list = append(list, "its file has "+s.File.Mode+"; the daemon runs as "+s.File.Daemon)
	case cause == status.CauseShmFull && s.File.Free != "":
		list = append(list, s.File.Free)
	}
	return list
}

// MirrorOf returns the mirror of a channel in a report, and false if there is none.
func MirrorOf(s status.Report, host, channel string) (status.Mirror, bool) {
	return first(s.Mirrors, func(m status.Mirror) bool { return m.Host == host && m.Channel == channel })
}

// LinkOf returns the link to a host in a report, and false if there is none.
func LinkOf(s status.Report, host string) (status.Link, bool) {
	return first(s.Links, func(l status.Link) bool { return l.Peer == host })
}

// LocalOf returns a channel of this host in a report, and false if there is none.
func LocalOf(s status.Report, channel string) (status.Local, bool) {
	return first(s.Locals, func(c status.Local) bool { return c.Channel == channel })
}

func first[T any](list []T, is func(T) bool) (found T, ok bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	return found, false
}
