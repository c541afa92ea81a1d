package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge"
)

func statusCommand(a *app) *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the daemon does",
		Long: `Show what the running daemon does: its peers, its mirrors with the age of their
newest frame, what it sends to others. QOS is what is served otherwise than by
default, DROPPED why frames did not get into it: superseded by a newer one,
rate_limited, expired before they could leave, lost, late at their arrival,
refused, overflow (gone from the ring in mode every). --json prints everything.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s statusReply
			answer, err := a.client(path).get(cmd.Context(), "/v1/status", &s)
			if err != nil {
				return err
			}
			if asJSON {
				return a.ui.json(answer)
			}
			return a.showStatus(s)
		},
	}
	jsonFlag(cmd, &asJSON)
	controlFlag(cmd, &path)
	return cmd
}

func (a *app) showStatus(s statusReply) error {
	if err := a.ui.fields(
		"host", s.Host,
		"node", s.Node,
		"network", s.Network,
		"listen", s.Listen,
		"up", seconds(s.UptimeS),
		"daemon", fmt.Sprintf("%s, pid %d", s.Version, s.PID),
	); err != nil {
		return err
	}
	for _, section := range []struct {
		header []string
		rows   [][]string
	}{
		{[]string{"PEER", "STATE", "ADDRESS", "RTT", "UP", "NOTE"}, peerRows(s.Status)},
		{[]string{"MIRROR", "OF", "STATE", "SEQ", "AGE", "DELIVERED", "NOTE"}, mirrorRows(s.Mirrors)},
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
		rows = append(rows, []string{l.Peer, state, l.Addr, millis(l.RTTms), seconds(l.UpS), ""})
	}
	for _, p := range s.Peers {
		if p.State != "linked" {
			rows = append(rows, []string{firstOf(p.Host, "?"), p.State, addrsText(p.Addrs), "", "", p.Error})
		}
	}
	return rows
}

func mirrorRows(list []bridge.MirrorStatus) [][]string {
	var rows [][]string
	for _, m := range list {
		age := ""
		if m.AgeMs != nil {
			age = millis(*m.AgeMs)
		}
		rows = append(rows, []string{m.Name, m.Host + "/" + m.Channel, m.State, fmt.Sprint(m.Seq), age, deliveredText(m.Accounts), m.Reason})
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
		rows = append(rows, []string{p.Channel, p.Host + "/" + firstOf(p.As, p.Channel), p.State, p.Reason})
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
