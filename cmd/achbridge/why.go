package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"
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
peer_silent, multicast_blocked, link_rate, loss, budget, clock, shm_full,
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
	answer, err := c.get(ctx, "/v1/why?"+url.Values{"of": {of}, "window": {window.String()}}.Encode(), &r)
	if err != nil {
		return err
	}
	if asJSON {
		err = a.ui.json(answer)
	} else {
		err = a.showWhy(r)
	}
	if err == nil && r.Cause != causeWell {
		err = failed(fmt.Errorf("%s: %s", r.Of, r.Cause), "")
	}
	return err
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
	return a.ui.fields(pairs...)
}
