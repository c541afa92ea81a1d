package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

func statusCommand(a *app) *cobra.Command {
	var check, watch, verbose bool
	cmd := &cobra.Command{
		Use:         "status",
		Short:       "Show the hosts, and the channels that need a look",
		Example:     examples("achbridge status --watch", "achbridge status --verbose"),
		Annotations: docs("docs/monitoring.md"),
		Args:        takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch && check {
				return ui.Usage(errors.New("--watch and --check: choose one"), "")
			}
			if watch {
				return repeat(cmd.Context(), func(n int) error {
					var s api.StatusReply
					answer, err := a.daemon().Get(cmd.Context(), "/v1/status", &s)
					switch {
					case err != nil:
						return err
					case a.asJSON:
						return a.ui.JSONLine(answer)
					}
					return a.ui.Repaint(n, func(u *ui.Terminal) error { return (&app{ui: u}).statusWriter(verbose)(s) })
				})
			}
			var s api.StatusReply
			answer, err := a.daemon().Get(cmd.Context(), "/v1/status", &s)
			if err != nil {
				return err
			}
			if a.asJSON {
				err = a.ui.JSON(answer)
			} else {
				err = a.statusWriter(verbose)(s)
			}
			if err == nil && check {
				err = diagnose.NotAtWork(s.Report)
			}
			return err
		},
	}
	a.jsonFlag(cmd)
	cmd.Flags().BoolVar(&check, "check", false, "exit with 1 unless all mirrors and pushes work")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show all channels, with their figures and counters")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "repeat the output every second")
	a.controlFlag(cmd)
	return cmd
}

// statusWriter returns the function that prints a status, in its long or its short form.
func (a *app) statusWriter(verbose bool) func(api.StatusReply) error {
	if verbose {
		return a.showStatus
	}
	return a.showSummary
}

// showSummary prints a line for each host and one for each channel that needs a look.
func (a *app) showSummary(s api.StatusReply) error {
	certificate := ""
	if s.CertificateEnds != nil && time.Until(*s.CertificateEnds) < certificateWarning {
		certificate = certificateText(s.DaemonInfo, time.Now())
	}
	list := diagnose.Attention(s.Report)
	a.ui.Fields(
		"host", s.Host+", up "+ui.Seconds(s.UptimeS),
		"certificate", certificate,
		"processor", cpuWaitText(s.Report),
		"dscp", markingText(s.Report),
		"recorder", recorderProblem(s.Recorder),
		"channels", channelsText(s.Report, len(list)),
	)
	if rows := append(hubRows(s.Hub), hostRows(s.Report)...); len(rows) > 0 {
		a.ui.Line("")
		a.ui.Table([]string{"HOST", "STATE", "OVER", "RTT", "MIRRORS", "SENT", "NOTE"}, rows, "OVER", "SENT")
	}
	if len(list) == 0 {
		return a.ui.Broken()
	}
	var rows [][]string
	for _, x := range list {
		age := ""
		if x.AgeMs != nil {
			age = ui.Millis(*x.AgeMs)
		}
		rows = append(rows, []string{x.Channel, a.ui.Color.Paint(healthColor(x.Health), x.Health.String()), age, x.Note})
	}
	a.ui.Line("")
	a.ui.Table([]string{"CHANNEL", "HEALTH", "AGE", "NOTE"}, rows)
	return a.ui.Line("\ncauses and fixes: achbridge why")
}

// certificateWarning is the remaining validity of the host's certificate below which the short form shows its end.
const certificateWarning = 30 * 24 * time.Hour

// channelsText returns the numbers of mirrors, sent channels and pushes, and how many channels need a look.
func channelsText(s status.Report, attended int) string {
	var parts []string
	for _, x := range []struct {
		n    int
		what string
	}{{len(diagnose.LastingMirrors(s)), "mirrored here"}, {len(s.Exports), "sent"}, {len(s.Pushes), "pushed"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	text := cmp.Or(strings.Join(parts, ", "), "none mirrored here, none sent")
	switch attended {
	case 0:
		return text
	case 1:
		return text + "; 1 needs a look"
	}
	return fmt.Sprintf("%s; %d need a look", text, attended)
}

// hubRows returns a row for the hub if this host is not connected to it, or it is silent.
func hubRows(h *api.Hub) [][]string {
	switch {
	case h == nil || h.Connected && h.SilentS < 1:
		return nil
	case h.Connected:
		return [][]string{{"hub", "silent", "", "", "", "", hubText(h)}}
	}
	return [][]string{{"hub", "no link", "", "", "", "", hubText(h)}}
}

// hostRows returns a row for each link, for each known node without a link, and for each other host that a mirror names.
func hostRows(s status.Report) [][]string {
	mirrors, live, sent, known := map[string]int{}, map[string]int{}, map[string]int{}, map[string]bool{}
	for _, m := range diagnose.LastingMirrors(s) {
		mirrors[m.Host]++
		if m.Health() == status.HealthLive {
			live[m.Host]++
		}
	}
	for _, e := range s.Exports {
		sent[e.Peer]++
	}
	var rows [][]string
	add := func(host, state, over, rtt, note string) {
		known[host] = true
		mirrored, exported := "", ""
		if n := mirrors[host]; n > 0 {
			mirrored = fmt.Sprintf("%d of %d live", live[host], n)
		}
		if n := sent[host]; n > 0 {
			exported = fmt.Sprint(n)
		}
		rows = append(rows, []string{host, state, over, rtt, mirrored, exported, note})
	}
	for _, r := range peerRows(s) {
		add(r[0], r[1], r[3], r[5], r[7])
	}
	for _, m := range diagnose.LastingMirrors(s) {
		switch {
		case known[m.Host], m.Host == s.Host: // the output of a mux or of a merge
		case m.Unauthenticated:
			add(m.Host, "", "achd", "", "")
		default:
			add(m.Host, "no link", "", "", "")
		}
	}
	return rows
}

// repeat calls show at once and every second until ctx ends or show fails; n counts from 0.
func repeat(ctx context.Context, show func(n int) error) error {
	for n := 0; ctx.Err() == nil; n++ {
		if err := show(n); err != nil && ctx.Err() == nil {
			return err
		}
		api.Rest(ctx, time.Second)
	}
	return nil
}

// certificateText returns when the host's certificate ends, or "" without a certificate.
func certificateText(d api.DaemonInfo, now time.Time) string {
	if d.CertificateEnds == nil {
		return ""
	}
	left := d.CertificateEnds.Sub(now)
	if left < 0 {
		return "ended " + ui.Day(*d.CertificateEnds)
	}
	return fmt.Sprintf("ends %s, in %d days", ui.Day(*d.CertificateEnds), int(left.Hours()/24))
}

// cpuWaitText returns a warning if the daemon gets too little CPU time, else "".
func cpuWaitText(s status.Report) string {
	if !diagnose.Starves(s) {
		return ""
	}
	return fmt.Sprintf("the daemon waited for one %.0f %% of the last seconds: the host is busy", 100**s.CPUWait)
}

// markingText returns a warning if the kernel refuses to mark packets, else "".
func markingText(s status.Report) string {
	if s.NoDSCP == "" {
		return ""
	}
	return "packets are not marked, the kernel refuses: " + s.NoDSCP
}

func (a *app) showStatus(s api.StatusReply) error {
	a.ui.Fields(
		"host", s.Host,
		"node", s.Node,
		"network", s.Network,
		"certificate", certificateText(s.DaemonInfo, time.Now()),
		"listen", s.Listen,
		"http", s.HTTP,
		"foxglove", s.Foxglove,
		"achd", achdText(s.Achd),
		"hub", hubText(s.Hub),
		"up", ui.Seconds(s.UptimeS),
		"processor", cpuWaitText(s.Report),
		"dscp", markingText(s.Report),
		"recorder", recorderText(s.Recorder),
		"daemon", fmt.Sprintf("%s, pid %d", s.Version, s.PID),
	)
	for _, section := range []struct {
		header     []string
		rows       [][]string
		shrinkable []string
	}{
		{[]string{"PEER", "STATE", "ADDRESS", "OVER", "DSCP", "RTT", "UP", "NOTE"}, peerRows(s.Report), []string{"DSCP"}},
		{[]string{"MIRROR", "OF", "HEALTH", "RATE", "LOST", "AGE", "MEAN", "P99", "NOTE"}, a.mirrorRows(s.Mirrors), []string{"MEAN", "OF"}},
		{[]string{"MIRROR", "QOS", "DELIVERED", "DROPPED"}, mirrorServiceRows(s.Mirrors), nil},
		{[]string{"EXPORT", "TO", "SEQ", "OFFERED", "DELIVERED", "NOTE"}, exportRows(s.Exports), nil},
		{[]string{"EXPORT", "TO", "QOS", "DROPPED"}, exportServiceRows(s.Exports), nil},
		{[]string{"PUSH", "TO", "STATE", "NOTE"}, pushRows(s.Pushes), nil},
		{lockHeader, lockRows(s.Locks), nil},
		{[]string{"ACHD", "CLIENT", "DOES", "OVER", "FRAMES"}, achdRows(s.Achd), nil},
		{[]string{"CHANNEL", "FRAMES", "SEQ", "EXPORTED", "NOTE"}, localRows(s.Report), nil},
	} {
		if len(section.rows) == 0 {
			continue
		}
		a.ui.Line("")
		a.ui.Table(section.header, section.rows, section.shrinkable...)
	}
	return nil
}

// recorderText describes the flight recorder. It returns "" if there is none.
func recorderText(r *api.Recorder) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("the last %s, %s of %s", ui.Seconds(r.CoversS), ui.AboutBytes(r.MemoryBytes), ui.AboutBytes(r.MemoryLimit))
	if r.Missed+r.Skipped > 0 {
		text += fmt.Sprintf("; missed %d", r.Missed+r.Skipped)
	}
	if r.Snapshots > 0 {
		text += "; " + countText(r.Snapshots, "snapshot") + " in " + r.Dir
	}
	if problem := recorderProblem(r); problem != "" {
		text += "; " + problem
	}
	return text
}

// recorderProblem returns why snapshots of triggers are missing or may be missing, "" if there is no reason.
func recorderProblem(r *api.Recorder) string {
	if r == nil {
		return ""
	}
	problems := r.Problems
	if r.Last != nil && r.Last.Error != "" {
		problems = append([]string{"no snapshot of " + r.Last.Reason + ": " + r.Last.Error}, problems...)
	}
	return strings.Join(problems, "; ")
}

// achdText summarizes the use of achd's protocol. It returns "" if the protocol is off.
func achdText(s *api.Achd) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%s, unauthenticated: clients %d, frames %d, turned away %d", s.Listen, len(s.Clients), s.Frames, s.Refused)
}

// hubText describes the connection to the hub. It returns "" without a hub.
func hubText(h *api.Hub) string {
	switch {
	case h == nil:
		return ""
	case !h.Connected && h.Error != "":
		return fmt.Sprintf("%s, not connected for %s: %s", h.Address, ui.Seconds(h.SinceS), h.Error)
	case !h.Connected:
		return h.Address + ", not connected yet"
	case h.SilentS >= 1:
		return fmt.Sprintf("%s, silent for %s", h.Address, ui.Seconds(h.SilentS))
	}
	return fmt.Sprintf("%s, connected for %s%s", h.Address, ui.Seconds(h.SinceS), h.RoundTrip())
}

// achdRows returns a row for each client that reads or writes with achd's protocol.
func achdRows(s *api.Achd) (rows [][]string) {
	if s == nil {
		return nil
	}
	for _, c := range s.Clients {
		does := "reads"
		if c.Writes {
			does = "writes"
		}
		rows = append(rows, []string{c.Channel, c.Addr, does, c.Transport, fmt.Sprint(c.Frames)})
	}
	return rows
}

// peerRows returns a row for each link, then one for each known node without a link.
func peerRows(s status.Report) [][]string {
	var rows [][]string
	for _, l := range s.Links {
		state := "linked"
		if l.State == status.LinkSilent {
			state = l.State.String()
		}
		var notes []string
		if l.LeftOut > 0 {
			notes = append(notes, fmt.Sprintf("%d of its channels are left out; name those that you want", l.LeftOut))
		}
		if l.CopyAt != "" {
			notes = append(notes, "a copied image at "+l.CopyAt+"?")
		}
		if l.OtherWay != "" {
			notes = append(notes, l.OtherWay)
		}
		rows = append(rows, []string{l.Peer, state, l.Addr, l.Transport.String(), l.DSCP, ui.Millis(l.RTTms), ui.Seconds(l.UpS), strings.Join(notes, "; ")})
	}
	for _, p := range s.Peers {
		if p.State != status.PeerLinked {
			rows = append(rows, []string{cmp.Or(p.Host, "?"), p.State.String(), addrsText(p.Addrs), "", "", "", "", p.Error})
		}
	}
	return rows
}

func (a *app) mirrorRows(list []status.Mirror) [][]string {
	var rows [][]string
	for _, m := range list {
		age, mean, p99, rate, lost := "", "", "", "", ""
		if m.AgeMs != nil {
			age = ui.Millis(*m.AgeMs)
		}
		if m.Age != nil && m.Age.Window != nil {
			mean, p99 = ui.Millis(m.Age.Window.MeanMs), ui.Millis(m.Age.Window.P99Ms)
		}
		if m.PeriodMs != nil && *m.PeriodMs > 0 {
			rate = ui.Hertz(1000 / *m.PeriodMs)
		}
		if m.LostShare != nil {
			lost = fmt.Sprintf("%.1f %%", 100**m.LostShare)
		}
		health := strings.TrimSpace(a.ui.Color.Paint(healthColor(m.Health()), m.Health().String()) + " " + diagnose.MarkOf(m.Unauthenticated))
		rows = append(rows, []string{m.Name, m.Host + "/" + m.Channel, health, rate, lost, age, mean, p99, diagnose.NoteOf(m)})
	}
	return rows
}

// healthColor returns the ANSI color of h: green, yellow, or red if the user has to act.
func healthColor(h status.Health) string {
	switch h {
	case status.HealthLive:
		return "32"
	case status.HealthLate, status.HealthWaiting:
		return "33"
	}
	return "31"
}

// mirrorServiceRows returns a row for each mirror whose quality of service is not the default
// or that has dropped frames.
func mirrorServiceRows(list []status.Mirror) [][]string {
	var rows [][]string
	for _, m := range list {
		qos, drops := diagnose.QoSText(m), diagnose.DropsText(m.FrameCounters)
		delivered := diagnose.DeliveredText(m.FrameCounters)
		if m.Merge != nil {
			delivered = "" // the mirrors of the merge count the frames
		}
		if qos != "" || drops != "" {
			rows = append(rows, []string{m.Name, qos, delivered, drops})
		}
	}
	return rows
}

func exportRows(list []status.Subscription) [][]string {
	var rows [][]string
	for _, e := range list {
		seq := ""
		if e.Seq > 0 {
			seq = fmt.Sprint(e.Seq)
		}
		rows = append(rows, []string{e.Channel, e.Peer, seq, fmt.Sprint(e.Offered), diagnose.DeliveredText(e.FrameCounters), e.Reason})
	}
	return rows
}

func exportServiceRows(list []status.Subscription) [][]string {
	var rows [][]string
	for _, e := range list {
		qos, drops := rule.Differences(rule.QoS{}, e.QoS), diagnose.DropsText(e.FrameCounters)
		if qos != "" || drops != "" {
			rows = append(rows, []string{e.Channel, e.Peer, qos, drops})
		}
	}
	return rows
}

func pushRows(list []status.Push) [][]string {
	var rows [][]string
	for _, p := range list {
		rows = append(rows, []string{p.Channel, p.Host + "/" + cmp.Or(p.As, p.Channel), strings.TrimSpace(p.State.String() + " " + diagnose.MarkOf(p.Unauthenticated)), cmp.Or(p.Reason, rule.Differences(rule.QoS{}, p.QoS))})
	}
	return rows
}

// localNote returns the problems of a channel of this host, or "".
func localNote(c status.Local) string {
	notes := []string{c.Reason, diagnose.InKernel(c)}
	if c.Ach1x {
		notes = append(notes, diagnose.Ach1xNote)
	}
	if c.Mismatch != nil {
		notes = append(notes, c.Mismatch.Why)
	}
	return strings.Join(slices.DeleteFunc(notes, func(note string) bool { return note == "" }), "; ")
}

// localRows returns a row for each channel of this host that is not a mirror.
func localRows(s status.Report) [][]string {
	mirrors := map[string]bool{}
	for _, m := range s.Mirrors {
		mirrors[m.Name] = true
	}
	var rows [][]string
	for _, c := range s.Locals {
		if !mirrors[c.Channel] {
			rows = append(rows, []string{c.Channel, geometryText(c.FrameCount, c.FrameSize), fmt.Sprint(c.Seq), ui.YesNo(c.Exported), localNote(c)})
		}
	}
	return rows
}
