package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge"
)

// whyWindow is how long why watches unless it is told otherwise: the hosts tell each
// other once a second what became of the frames.
const whyWindow = 2 * time.Second

func whyCommand(a *app) *cobra.Command {
	var path string
	var asJSON bool
	window := whyWindow
	cmd := &cobra.Command{
		Use:   "why CHANNEL",
		Short: "Say what keeps a channel from being fresh",
		Long: `Watch a channel for a while and name what keeps it from being fresh, with the
figures that tell, and what to do about it. CHANNEL is HOST/CHANNEL or the name of a
mirror; or, where it comes from, a channel of this host.

The verdict is one of: well, publisher_stopped, publisher_slow, no_channel, rule,
export_rule, accept_rule, file_mode, key, revoked, certificate, peer_missing,
peer_silent, multicast_blocked, link_rate, loss, budget, clock, host_busy, shm_full,
receiver_slow, corrupt, limit, loop, other; --json has it as "cause".

It exits with 0 when all is well, else with 1.`,
		Example: "  achbridge why krang/imu\n  achbridge why imu                       # on krang",
		Args:    takes("CHANNEL"),
		PreRunE: func(*cobra.Command, []string) error {
			if err := checkWindow("--window", window); err != nil {
				return misused(err, "")
			}
			return nil
		},
		ValidArgsFunction: a.remoteNames(&path),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.why(cmd.Context(), a.client(path), args[0], window, asJSON)
		},
	}
	cmd.Flags().DurationVar(&window, "window", window, "watch for this `TIME`")
	jsonFlag(cmd, &asJSON)
	controlFlag(cmd, &path)
	return cmd
}

func (a *app) why(ctx context.Context, c *client, of string, window time.Duration, asJSON bool) error {
	c.http.Timeout += window
	var r whyReport
	_, err := c.get(ctx, "/v1/why?"+url.Values{"of": {of}, "window": {window.String()}}.Encode(), &r)
	if err != nil {
		return err
	}
	a.addUsers(&r)
	if asJSON {
		err = a.ui.json(r)
	} else {
		err = a.showWhy(r)
	}
	if err == nil && r.Cause != causeWell {
		err = failed(fmt.Errorf("%s: %s", r.Of, r.Cause), "")
	}
	return err
}

// addUsers tells which processes have a channel of this host open into which nothing is
// put. The daemon may not see them: the packaged unit hides them from it.
func (a *app) addUsers(r *whyReport) {
	_, channel, _ := strings.Cut(r.Of, "/")
	if r.Mirror != "" || r.Cause != bridge.CausePublisherStopped {
		return
	}
	channels, hidden := sharersOf(&patient{app: a})
	var list []string
	for _, s := range channels[channel] {
		text := s.String()
		if processState(s.pid) == "T" {
			text += ", which is stopped"
			r.Cure = fmt.Sprintf("let it go on: kill -CONT %d", s.pid)
		}
		list = append(list, text)
	}
	switch {
	case hidden > 0 && os.Geteuid() != 0:
		r.Evidence = append(r.Evidence, "as root this would tell which processes have it open")
	case len(list) < 2: // the daemon alone
		r.Evidence = append(r.Evidence, "no other process has it open: its publisher is gone")
	default:
		r.Evidence = append(r.Evidence, "it is open in "+andList(list))
	}
}

// processState is the letter that ps shows.
func processState(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:min(1, len(rest))]
}

func (a *app) showWhy(r whyReport) error {
	pairs := []string{"channel", r.Of, "verdict", string(r.Cause) + ": " + r.Text}
	for _, e := range r.Evidence {
		pairs = append(pairs, "evidence", e)
	}
	pairs = append(pairs, "cure", r.Cure)
	for _, n := range r.Notes {
		pairs = append(pairs, "also", string(n.Cause)+": "+n.Text)
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		if err := a.ui.line("%-9s  %s", pairs[i]+":", a.ui.wrap(11, pairs[i+1])); err != nil {
			return err
		}
	}
	return nil
}
