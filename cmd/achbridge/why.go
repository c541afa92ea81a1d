package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/doctor"
	"achbridge/cmd/achbridge/ui"
)

func whyCommand(a *app) *cobra.Command {
	window := api.WhyWindow
	cmd := &cobra.Command{
		Use:         "why [CHANNEL]",
		Short:       "Diagnose late or missing channels",
		Example:     examples("achbridge why", "achbridge why krang/imu --window 10s"),
		Annotations: docs("docs/troubleshooting.md"),
		Args:        takes("[CHANNEL]"),
		PreRunE: func(*cobra.Command, []string) error {
			if err := api.CheckWindow("--window", window); err != nil {
				return ui.Usage(err, "")
			}
			return nil
		},
		ValidArgsFunction: a.remoteNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.whyAll(cmd.Context(), a.daemon(), window)
			}
			r, err := a.why(cmd.Context(), a.daemon(), args[0], window)
			if err == nil {
				err = show(a, r, a.showWhy)
			}
			if err == nil && r.Cause != diagnose.Well {
				err = ui.Failure(fmt.Errorf("%s: %s", r.Of, r.Cause), "")
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&window, "window", window, "measure for `TIME`")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

// why requests the diagnosis of one channel. The daemon watches the channel for window.
func (a *app) why(ctx context.Context, c *api.Client, of string, window time.Duration) (r api.WhyReport, err error) {
	query := url.Values{"of": {of}, "window": {window.String()}}
	if _, err = c.Within(api.AnswerTime+window).Get(ctx, "/v1/why?"+query.Encode(), &r); err == nil {
		a.addUsers(&r)
	}
	return r, err
}

// whyAll requests and prints the problems of all mirrors and exports of this host. It returns an error if there is a problem.
func (a *app) whyAll(ctx context.Context, c *api.Client, window time.Duration) error {
	var r api.ProblemsReport
	query := url.Values{"window": {window.String()}}
	if _, err := c.Within(api.AnswerTime+window).Get(ctx, "/v1/why?"+query.Encode(), &r); err != nil {
		return err
	}
	if err := show(a, r, a.showProblems); err != nil || len(r.Problems) == 0 {
		return err
	}
	return ui.Failure(fmt.Errorf("%s: %s", r.Host, r.Problems[0].Cause), "")
}

// showProblems prints a line for each problem. On a terminal, its evidence and fix follow on separate lines.
func (a *app) showProblems(r api.ProblemsReport) error {
	if len(r.Problems) == 0 {
		return a.ui.Line("well: nothing is wrong with the %d mirrors of %s, nor with what it sends", r.Mirrors, r.Host)
	}
	for _, t := range r.Problems {
		cause := a.ui.Color.Paint("31", string(t.Cause)+":")
		text := a.ui.Hang(2, cause+" "+t.Text)
		if a.ui.Wraps() {
			for _, e := range t.Evidence {
				text += "\n  " + a.ui.Wrap(2, e)
			}
			if t.Fix != "" {
				text += "\n  " + a.ui.Wrap(2, "fix: "+t.Fix)
			}
		} else {
			text = strings.Join(append([]string{text}, t.Evidence...), "; ")
			if t.Fix != "" {
				text += ". Fix: " + t.Fix
			}
		}
		a.ui.Line("%s", text)
	}
	return nil
}

// addUsers adds the processes that have the channel open to the evidence, if its publisher has
// stopped or hangs, and a note if a reader was killed while it waited. It runs in the command, since
// the daemon may not see these processes: the packaged unit hides them from it.
func (a *app) addUsers(r *api.WhyReport) {
	_, channel, _ := strings.Cut(r.Of, "/")
	if r.Mirror == "" && r.Cause == status.CauseNoChannel {
		a.addOrphans(r, channel)
	}
	isOwn := r.Mirror == "" && (r.Cause == diagnose.Well || r.Cause == status.CausePublisherStopped)
	if isOwn && doctor.HasKilledReaders(a.Dir, channel) {
		info, _ := a.Dir.Info(channel)
		f := diagnose.KilledReader(channel, info.IsAch1x)
		f.Evidence = []string{}
		r.Notes = append(r.Notes, f)
	}
	if r.Mirror != "" || r.Cause != status.CausePublisherStopped && r.Cause != status.CauseReaderKilled {
		return
	}
	channels, hidden := doctor.SharersOf(a.Dir)
	var list []string
	for _, s := range channels[channel] {
		text := s.String()
		if processState(s.PID) == "T" {
			text += ", which is stopped"
			r.Fix = fmt.Sprintf("let it go on: kill -CONT %d", s.PID)
		}
		list = append(list, text)
	}
	switch {
	case hidden > 0 && os.Geteuid() != 0:
		r.Evidence = append(r.Evidence, "as root this would tell which processes have it open")
	case len(list) == 0: // no process but the daemon, which reads the channel from the kernel
	case len(list) == 1: // no process but the daemon
		r.Evidence = append(r.Evidence, "no other process has it open: its publisher is gone")
	default:
		r.Evidence = append(r.Evidence, "it is open in "+ui.AndList(list))
	}
}

// addOrphans adds the programs that still use a removed channel of that name to the evidence.
func (a *app) addOrphans(r *api.WhyReport, channel string) {
	orphans := doctor.OrphansOf(a.Dir)
	for _, o := range orphans {
		if o.Channel == channel {
			r.Evidence = append(r.Evidence, o.String())
			r.Fix = doctor.RemovedFix()
		}
	}
}

// processState returns the state letter of a process, as in ps. It returns "" if the process is unknown.
func processState(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:min(1, len(rest))]
}

func (a *app) showWhy(r api.WhyReport) error {
	health := strings.TrimSpace(r.Health.String() + " " + diagnose.MarkOf(r.Unauthenticated))
	pairs := []string{"channel", r.Of, "health", health, "verdict", string(r.Cause) + ": " + r.Text}
	for _, e := range r.Evidence {
		pairs = append(pairs, "evidence", e)
	}
	pairs = append(pairs, "fix", r.Fix)
	for _, n := range r.Notes {
		pairs = append(pairs, "also", string(n.Cause)+": "+n.Text)
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		a.ui.Line("%-9s  %s", pairs[i]+":", a.ui.Wrap(11, pairs[i+1]))
	}
	return nil
}
