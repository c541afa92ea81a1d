package main

import (
	"context"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/top"
	"achbridge/cmd/achbridge/values"
	"achbridge/cmd/achbridge/view"
)

func topCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch all channels, the worst first",
		Long: `Watch the channels that the running daemon mirrors and sends, once a second, on the
whole terminal. The worst come first: refused, waiting, stale, then by USED.

  USED  how late the next frame of a mirror is, as a share of the budget: P99 of the
        age over the last ten seconds (or the age now, if that is more), less the
        time between two frames. Above 100 % the mirror is over its budget.
  RATE  frames put into a mirror each second
  DROP  frames each second that did not get into it; those that a newer one replaced,
        or that max_rate left out, do not count

A bar is the average age in one second, the newest on the right. The scale ends at
the highest bar, or at a quarter of the budget if that is more; a peak far above the
others is beyond it, and marked. ! marks a channel that is over its budget or not live.
WAY says whether a channel comes in or goes out.

  up, down, page up, page down, home, end    choose a channel
  Enter, Esc    show all about it: its ledger, its link, the values in its newest frame
                if a layout is known, its events; go back
  /             show only channels whose line contains a text; Esc shows all
  s             sort by another column; u, a, r, d, n: USED, AGE, RATE, DROP, name
  ?             show the keys
  q, Ctrl-C     quit

NO_COLOR turns colours off. On a terminal that cannot be painted (TERM=dumb) pages
are printed one below the other.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return top.Watch(cmd.Context(), top.Config{Terminal: a.ui, Client: a.daemon(), In: a.in, Env: a.Env, Values: a.newestValues()})
		},
	}
	a.controlFlag(cmd)
	return cmd
}

// newestValues returns a function that decodes the newest frame of a local channel into lines of text. The function returns
// nil if no layout is known or the channel has no frame.
func (a *app) newestValues() func(context.Context, string) []string {
	quiet := a.Host // top fills the terminal, so notes must not be printed
	quiet.Note = func(string, ...any) {}
	return func(ctx context.Context, channel string) []string {
		ch, err := quiet.Open(channel)
		if err != nil {
			return nil
		}
		defer ch.Close()
		kind, _, err := quiet.LayoutOf("", view.View{Channel: ch, Of: channel, Asks: a.daemon(), Ctx: ctx})
		if err != nil || kind == nil {
			return nil
		}
		f := view.NewFollower(ch)
		frame, err := f.Newest(0)
		if err != nil {
			return nil
		}
		return values.Page(kind, frame)
	}
}
