package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

func statusCommand(a *app) *cobra.Command {
	var path string
	var asJSON, check, watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the daemon does",
		Long: `Show what the running daemon does: its peers, its mirrors, what it sends to others.
AGE is the age of a mirror's newest frame now. MEAN is the average age over the last
ten seconds; for 99 % of that time the age was at most P99. NOTE says which mirrors
are over their budget (USED in achbridge top is above 100 %). QOS are the options
that differ from the defaults. DROPPED says why frames did not get into the mirror:
superseded by a newer one, rate_limited, expired before they could leave, lost, late
when they arrived, refused, overflow (gone from the ring in mode every). --watch
shows it again every second until Ctrl-C. --json prints everything; with --watch, one
document a line.

The exit code is 1 when no daemon answers. With --check, for health checks and
scripts, it is also 1 unless every mirror is live and every push accepted, and the
output says which is not. A pattern that matches no channel yet is no failure.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch && check {
				return ui.Usage(errors.New("--watch and --check: choose one"), "")
			}
			if watch {
				show := a.repaintStatus
				if asJSON {
					show = func(l look) error { return a.ui.JSONLine(l.answer) }
				}
				return a.watchStatus(cmd.Context(), a.client(path), show)
			}
			var s api.StatusReply
			answer, err := a.client(path).Get(cmd.Context(), "/v1/status", &s)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.ui.JSON(answer)
			} else {
				err = a.showStatus(s)
			}
			if err == nil && check {
				err = diagnose.NotAtWork(s.Report)
			}
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&check, "check", false, "fail unless all mirrors and pushes are at work")
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again every second")
	controlFlag(cmd, &path)
	return cmd
}

// watchEvery is how often status --watch looks.
const watchEvery = time.Second

// look is one answer of the daemon, as it came and as it is understood; number counts from 0.
type look struct {
	number int
	answer json.RawMessage
	status api.StatusReply
}

// watchStatus shows the status until ctx ends.
func (a *app) watchStatus(ctx context.Context, c *api.Client, show func(look) error) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for l := (look{}); ; l = (look{number: l.number + 1}) {
		var err error
		l.answer, err = c.Get(ctx, "/v1/status", &l.status)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = show(l)
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// repaintStatus shows the status on a terminal in the place of the last, and elsewhere
// below it.
func (a *app) repaintStatus(l look) error {
	return a.ui.Repaint(l.number, func(u *ui.Terminal) error { return (&app{ui: u}).showStatus(l.status) })
}

// certificateText says how long the host's certificate is good; "" without one.
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

func (a *app) showStatus(s api.StatusReply) error {
	if err := a.ui.Fields(
		"host", s.Host,
		"node", s.Node,
		"network", s.Network,
		"certificate", certificateText(s.DaemonInfo, time.Now()),
		"listen", s.Listen,
		"http", s.HTTP,
		"up", ui.Seconds(s.UptimeS),
		"daemon", fmt.Sprintf("%s, pid %d", s.Version, s.PID),
	); err != nil {
		return err
	}
	for _, section := range []struct {
		header []string
		rows   [][]string
	}{
		{[]string{"PEER", "STATE", "ADDRESS", "OVER", "RTT", "UP", "NOTE"}, peerRows(s.Report)},
		{[]string{"MIRROR", "OF", "STATE", "DELIVERED", "AGE", "MEAN", "P99", "NOTE"}, mirrorRows(s.Mirrors)},
		{[]string{"MIRROR", "QOS", "DROPPED"}, mirrorServiceRows(s.Mirrors)},
		{[]string{"EXPORT", "TO", "SEQ", "OFFERED", "DELIVERED", "NOTE"}, exportRows(s.Exports)},
		{[]string{"EXPORT", "TO", "QOS", "DROPPED"}, exportServiceRows(s.Exports)},
		{[]string{"PUSH", "TO", "STATE", "NOTE"}, pushRows(s.Pushes)},
		{[]string{"CHANNEL", "FRAMES", "SEQ", "EXPORTED", "NOTE"}, localRows(s.Report)},
	} {
		if len(section.rows) == 0 {
			continue
		}
		if err := a.ui.Line(""); err != nil {
			return err
		}
		if err := a.ui.Table(section.header, section.rows); err != nil {
			return err
		}
	}
	return nil
}

// peerRows shows the links, then the nodes that are known and not linked.
func peerRows(s status.Report) [][]string {
	var rows [][]string
	for _, l := range s.Links {
		state := "linked"
		if l.State == status.LinkSilent {
			state = l.State.String()
		}
		note := ""
		if l.LeftOut > 0 {
			note = fmt.Sprintf("%d of its channels are left out; name those that you want", l.LeftOut)
		}
		rows = append(rows, []string{l.Peer, state, l.Addr, l.Transport.String(), ui.Millis(l.RTTms), ui.Seconds(l.UpS), note})
	}
	for _, p := range s.Peers {
		if p.State != status.PeerLinked {
			rows = append(rows, []string{cmp.Or(p.Host, "?"), p.State.String(), addrsText(p.Addrs), "", "", "", p.Error})
		}
	}
	return rows
}

func mirrorRows(list []status.Mirror) [][]string {
	var rows [][]string
	for _, m := range list {
		age, mean, p99, note := "", "", "", m.Reason
		if m.AgeMs != nil {
			age = ui.Millis(*m.AgeMs)
		}
		if m.Age != nil && m.Age.Window != nil {
			mean, p99 = ui.Millis(m.Age.Window.MeanMs), ui.Millis(m.Age.Window.P99Ms)
		}
		if used := diagnose.UsedOf(m); note == "" && used > 1 {
			note = "over budget: " + ui.Percent(used)
		}
		rows = append(rows, []string{m.Name, m.Host + "/" + m.Channel, m.State.String(), diagnose.DeliveredText(m.Accounts), age, mean, p99, note})
	}
	return rows
}

// mirrorServiceRows shows mirrors whose quality of service is not the default, and mirrors
// that miss frames.
func mirrorServiceRows(list []status.Mirror) [][]string {
	var rows [][]string
	for _, m := range list {
		qos, drops := rule.Differences(rule.QoS{}, m.QoS), diagnose.DropsText(m.Accounts)
		if qos != "" || drops != "" {
			rows = append(rows, []string{m.Name, qos, drops})
		}
	}
	return rows
}

func exportRows(list []status.Subscription) [][]string {
	var rows [][]string
	for _, e := range list {
		rows = append(rows, []string{e.Channel, e.Peer, fmt.Sprint(e.Seq), fmt.Sprint(e.Offered), diagnose.DeliveredText(e.Accounts), e.Reason})
	}
	return rows
}

func exportServiceRows(list []status.Subscription) [][]string {
	var rows [][]string
	for _, e := range list {
		qos, drops := rule.Differences(rule.QoS{}, e.QoS), diagnose.DropsText(e.Accounts)
		if qos != "" || drops != "" {
			rows = append(rows, []string{e.Channel, e.Peer, qos, drops})
		}
	}
	return rows
}

func pushRows(list []status.Push) [][]string {
	var rows [][]string
	for _, p := range list {
		rows = append(rows, []string{p.Channel, p.Host + "/" + cmp.Or(p.As, p.Channel), p.State.String(), cmp.Or(p.Reason, rule.Differences(rule.QoS{}, p.QoS))})
	}
	return rows
}

// localRows shows the channels of this host, without those that mirrorRows shows.
func localRows(s status.Report) [][]string {
	mirrors := map[string]bool{}
	for _, m := range s.Mirrors {
		mirrors[m.Name] = true
	}
	var rows [][]string
	for _, c := range s.Locals {
		if !mirrors[c.Channel] {
			rows = append(rows, []string{c.Channel, geometryText(c.FrameCount, c.FrameSize), fmt.Sprint(c.Seq), ui.YesNo(c.Exported), c.Reason})
		}
	}
	return rows
}
