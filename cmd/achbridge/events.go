package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
)

func eventsCommand(a *app) *cobra.Command {
	var path string
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened",
		Long: `Show what happened to links, mirrors and channels since the daemon began, oldest
first. The newest 512 events are kept. --follow goes on with new events, also after
the daemon was restarted. The kinds are

` + kindsText() + `

mirror_stale is told at once when no frame came within a mirror's deadline.
mirror_fresh is told after frames have come in time for a second, or for longer if
the mirror became stale again soon before. deadline_missed tells every ten seconds
how often the deadline was missed in between. --json prints one object a line.`,
		Example: "  achbridge events\n  achbridge events --follow --json",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := a.client(path)
			show := func(e status.Event) error { return a.ui.Line("%s", eventText(e, "2006-01-02 15:04:05.000")) }
			if asJSON {
				show = func(e status.Event) error { return a.ui.JSONLine(e) }
			}
			if follow {
				return a.followEvents(cmd.Context(), c, show)
			}
			var f api.EventFollower
			l, err := f.Next(cmd.Context(), c, 0)
			if err != nil {
				return err
			}
			return a.showEvents(l, show)
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "wait for what happens")
	jsonFlag(cmd, &asJSON)
	controlFlag(cmd, &path)
	return cmd
}

func kindsText() string {
	words := make([]string, len(status.EventKinds))
	for i, k := range status.EventKinds {
		words[i] = string(k)
	}
	return "  " + strings.ReplaceAll(ui.Wrap(words, 2, 77), "\n", "\n  ")
}

// followEvents shows events until ctx ends. A daemon that ends is waited for.
func (a *app) followEvents(ctx context.Context, c *api.Client, show func(status.Event) error) error {
	var f api.EventFollower
	lost := false
	for ctx.Err() == nil {
		l, err := f.Next(ctx, c, api.EventWait)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && f.Run == "":
			return err
		case err != nil:
			if !lost {
				a.ui.Note("%v; trying again", err)
			}
			lost = true
			api.Rest(ctx, api.AskAgain)
			continue
		}
		if lost {
			a.ui.Note("the daemon answers again")
			lost = false
		}
		if err := a.showEvents(l, show); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) showEvents(l status.EventList, show func(status.Event) error) error {
	if l.Missed > 0 {
		a.ui.Note("%d events are not kept any more", l.Missed)
	}
	for _, e := range l.Events {
		if err := show(e); err != nil {
			return err
		}
	}
	return nil
}

// eventText is an event on a line, with its time in layout.
func eventText(e status.Event, layout string) string {
	text := e.Text
	if e.Count > 1 && e.Kind != status.EventDeadlineMissed {
		text += fmt.Sprintf(" (%d times)", e.Count)
	}
	return fmt.Sprintf("%s  %-16s  %-12s  %s", e.Time.Local().Format(layout), e.Kind, cmp.Or(e.Mirror, e.Channel, e.Host, "-"), text)
}
