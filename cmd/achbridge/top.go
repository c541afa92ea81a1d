package main

import (
	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/top"
)

func topCommand(a *app) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch all channels, the worst first",
		Long: `Watch the channels that the running daemon mirrors and sends, on the whole
terminal, once a second; the worst come first: refused, waiting, stale, and then by
USED. That is the share of its budget for which the next frame of a mirror has been
due: its P99 over the last ten seconds, or its age now if that is more, less the time
between two frames that it is to get, for so old it becomes of itself. RATE is frames put into a mirror each
second, DROP frames that did not get there, but for those beyond max_rate. The bars
show the mean age of each second, the newest on the right, as high as the highest, or a
quarter of the budget if that is more. ! marks what is over its budget or not live.
IMU > PC is sent there.

  up, down, page up, page down, home, end    choose a channel
  Enter, Esc    all about one channel: its ledger, its link, its events; and back
  /             show channels only whose line has that text; Esc: all
  s             sort by another column; u, a, r, d, n by USED, AGE, RATE, DROP, name
  q, Ctrl-C     quit

Without colour where NO_COLOR is set; on a terminal that cannot be painted
(TERM=dumb) page after page.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return top.Watch(cmd.Context(), a.ui, a.client(path), a.in, a.Env)
		},
	}
	controlFlag(cmd, &path)
	return cmd
}
