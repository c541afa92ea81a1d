package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge"
)

func statusCommand(a *app) *cobra.Command {
	var path string
	var asJSON, check, watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the daemon does",
		Long: `Show what the running daemon does: its peers, its mirrors, what it sends to others.
AGE is how old the newest frame of a mirror is now; MEAN is that over the last ten
seconds, and for 99 % of that time it was at most P99. --watch shows it all again
every second until Ctrl-C. QOS is what is served otherwise than by
default, DROPPED why frames did not get into it: superseded by a newer one,
rate_limited, expired before they could leave, lost, late at their arrival,
refused, overflow (gone from the ring in mode every). --json prints everything;
with --watch, one document a line.

It fails when no daemon answers. With --check, for health checks and scripts, it
also fails (1) unless every mirror is live and every push accepted, and says which
is not. A pattern that nothing matches yet is no failure.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if watch && check {
				return misused(errors.New("--watch goes on, --check answers: one of them"), "")
			}
			if watch {
				return a.watchStatus(cmd.Context(), a.client(path), asJSON)
			}
			var s statusReply
			answer, err := a.client(path).get(cmd.Context(), "/v1/status", &s)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.ui.json(answer)
			} else {
				err = a.showStatus(s)
			}
			if err == nil && check {
				err = idle(s.Status)
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

// watchStatus shows the status until ctx ends: on a terminal each time in the place
// of the last, else one after the other.
func (a *app) watchStatus(ctx context.Context, c *client, asJSON bool) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for looks := 0; ; looks++ {
		var s statusReply
		answer, err := c.get(ctx, "/v1/status", &s)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case asJSON:
			err = a.ui.jsonLine(answer)
		default:
			err = a.ui.again(looks, func(u *ui) error { return (&app{ui: u}).showStatus(s) })
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

// idle is an error that names the mirrors and pushes that are not at work, nil
// when all are.
func idle(s bridge.Status) error {
	var errs []error
	for _, m := range s.Mirrors {
		if m.State != "live" && !m.Temporary {
			errs = append(errs, fmt.Errorf("mirror %s is %s: %s", m.Name, m.State, cmp.Or(m.Reason, "no answer yet")))
		}
	}
	for _, p := range s.Pushes {
		if p.State != "accepted" {
			errs = append(errs, fmt.Errorf("push %s to %s is %s: %s", p.Channel, p.Host, p.State, cmp.Or(p.Reason, "no answer yet")))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return failed(errors.Join(errs...), "")
}

// certificateText says how long the host's certificate is good; "" without one.
func certificateText(d daemonInfo, now time.Time) string {
	if d.CertificateEnds == nil {
		return ""
	}
	left := d.CertificateEnds.Sub(now)
	if left < 0 {
		return "ended " + dayOf(*d.CertificateEnds)
	}
	return fmt.Sprintf("ends %s, in %d days", dayOf(*d.CertificateEnds), int(left.Hours()/24))
}

func (a *app) showStatus(s statusReply) error {
	if err := a.ui.fields(
		"host", s.Host,
		"node", s.Node,
		"network", s.Network,
		"certificate", certificateText(s.daemonInfo, time.Now()),
		"listen", s.Listen,
		"http", s.HTTP,
		"up", seconds(s.UptimeS),
		"daemon", fmt.Sprintf("%s, pid %d", s.Version, s.PID),
	); err != nil {
		return err
	}
	for _, section := range []struct {
		header []string
		rows   [][]string
	}{
		{[]string{"PEER", "STATE", "ADDRESS", "OVER", "RTT", "UP", "NOTE"}, peerRows(s.Status)},
		{[]string{"MIRROR", "OF", "STATE", "DELIVERED", "AGE", "MEAN", "P99", "NOTE"}, mirrorRows(s.Mirrors)},
		{[]string{"MIRROR", "QOS", "DROPPED"}, mirrorServiceRows(s.Mirrors)},
		{[]string{"EXPORT", "TO", "SEQ", "OFFERED", "DELIVERED", "NOTE"}, exportRows(s.Exports)},
		{[]string{"EXPORT", "TO", "QOS", "DROPPED"}, exportServiceRows(s.Exports)},
		{[]string{"PUSH", "TO", "STATE", "NOTE"}, pushRows(s.Pushes)},
		{[]string{"CHANNEL", "FRAMES", "SEQ", "EXPORTED", "NOTE"}, localRows(s.Status)},
	} {
		if len(section.rows) == 0 {
			continue
		}
		if err := a.ui.line(""); err != nil {
			return err
		}
		if err := a.ui.table(section.header, section.rows); err != nil {
			return err
		}
	}
	return nil
}

// peerRows shows the links, then the nodes that are known and not linked.
func peerRows(s bridge.Status) [][]string {
	var rows [][]string
	for _, l := range s.Links {
		state := "linked"
		if l.State == "silent" {
			state = l.State
		}
		rows = append(rows, []string{l.Peer, state, l.Addr, l.Transport, millis(l.RTTms), seconds(l.UpS), ""})
	}
	for _, p := range s.Peers {
		if p.State != "linked" {
			rows = append(rows, []string{cmp.Or(p.Host, "?"), p.State, addrsText(p.Addrs), "", "", "", p.Error})
		}
	}
	return rows
}

func mirrorRows(list []bridge.MirrorStatus) [][]string {
	var rows [][]string
	for _, m := range list {
		age, mean, p99 := "", "", ""
		if m.AgeMs != nil {
			age = millis(*m.AgeMs)
		}
		if m.Age != nil && m.Age.Window != nil {
			mean, p99 = millis(m.Age.Window.MeanMs), millis(m.Age.Window.P99Ms)
		}
		rows = append(rows, []string{m.Name, m.Host + "/" + m.Channel, m.State, deliveredText(m.Accounts), age, mean, p99, m.Reason})
	}
	return rows
}

// mirrorServiceRows shows the mirrors that are served otherwise than by default,
// and those that lack frames.
func mirrorServiceRows(list []bridge.MirrorStatus) [][]string {
	var rows [][]string
	for _, m := range list {
		qos, drops := qosText(bridge.QoS{}, m.QoS), dropsText(m.Accounts)
		if qos != "" || drops != "" {
			rows = append(rows, []string{m.Name, qos, drops})
		}
	}
	return rows
}

func exportRows(list []bridge.ExportStatus) [][]string {
	var rows [][]string
	for _, e := range list {
		rows = append(rows, []string{e.Channel, e.Peer, fmt.Sprint(e.Seq), fmt.Sprint(e.Offered), deliveredText(e.Accounts), e.Reason})
	}
	return rows
}

func exportServiceRows(list []bridge.ExportStatus) [][]string {
	var rows [][]string
	for _, e := range list {
		qos, drops := qosText(bridge.QoS{}, e.QoS), dropsText(e.Accounts)
		if qos != "" || drops != "" {
			rows = append(rows, []string{e.Channel, e.Peer, qos, drops})
		}
	}
	return rows
}

func pushRows(list []bridge.PushStatus) [][]string {
	var rows [][]string
	for _, p := range list {
		rows = append(rows, []string{p.Channel, p.Host + "/" + cmp.Or(p.As, p.Channel), p.State, cmp.Or(p.Reason, qosText(bridge.QoS{}, p.QoS))})
	}
	return rows
}

// localRows shows the channels of this host but those that mirrorRows shows.
func localRows(s bridge.Status) [][]string {
	mirrors := map[string]bool{}
	for _, m := range s.Mirrors {
		mirrors[m.Name] = true
	}
	var rows [][]string
	for _, c := range s.Locals {
		if !mirrors[c.Channel] {
			rows = append(rows, []string{c.Channel, geometryText(c.FrameCount, c.FrameSize), fmt.Sprint(c.Seq), yesNo(c.Exported), c.Reason})
		}
	}
	return rows
}

// millis prints milliseconds with three figures.
func millis(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f ms", v)
	case v < 100:
		return fmt.Sprintf("%.1f ms", v)
	case v < 10_000:
		return fmt.Sprintf("%.0f ms", v)
	}
	return seconds(v / 1000)
}

// seconds prints a duration to the second.
func seconds(v float64) string {
	return (time.Duration(v) * time.Second).String()
}
