package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
)

func eventsCommand(a *app) *cobra.Command {
	var follow bool
	var pick picked
	cmd := &cobra.Command{
		Use:         "events",
		Short:       "Show events of links, mirrors and channels, oldest first",
		Example:     examples("achbridge events --follow", "achbridge events --kind mirror_stale,mirror_fresh --since 10m"),
		Annotations: docs("docs/monitoring.md"),
		Args:        takes(),
		PreRunE:     func(*cobra.Command, []string) error { return pick.check(time.Now()) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := a.daemon()
			show := func(e status.Event) error { return a.ui.Line("%s", eventText(e, "2006-01-02 15:04:05.000")) }
			if a.asJSON {
				show = func(e status.Event) error { return a.ui.JSONLine(e) }
			}
			show = pick.only(show)
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
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for new events and show them too")
	cmd.Flags().StringSliceVar(&pick.kinds, "kind", nil, "show only events of `KIND`, or of KIND,KIND (default all)")
	cmd.Flags().StringVarP(&pick.since, "since", "S", "", "show only events since `TIME`, as in 10m (default all)")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kindWords(), cobra.ShellCompDirectiveNoFileComp))
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

func kindWords() []string {
	words := make([]string, len(status.EventKinds))
	for i, k := range status.EventKinds {
		words[i] = string(k)
	}
	return words
}

// picked holds the filter flags of `events`.
type picked struct {
	kinds []string // kinds to show; empty means all
	since string
	from  time.Time // parsed from since; zero means no limit
}

func (p *picked) check(now time.Time) error {
	for _, k := range p.kinds {
		if !slices.Contains(kindWords(), k) {
			return ui.Usage(fmt.Errorf("--kind %s: unknown kind of event", k), "use "+ui.OrList(kindWords()))
		}
	}
	if p.since == "" {
		return nil
	}
	from, ok := timeOf(p.since, now)
	if !ok {
		return ui.Usage(fmt.Errorf("--since %s: want a time, as in 10m, 15:04 or '2006-01-02 15:04:05'", p.since), "")
	}
	p.from = from
	return nil
}

// timeOf parses a duration before now, a time of today, or a date with or without a time. ok is false if text is none of these.
func timeOf(text string, now time.Time) (at time.Time, ok bool) {
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), ago >= 0
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location()), true
		}
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", time.DateTime, time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, true
		}
	}
	return at, false
}

// only returns a function that calls show for each event that passes the filter.
func (p *picked) only(show func(status.Event) error) func(status.Event) error {
	return func(e status.Event) error {
		if e.Time.Before(p.from) || len(p.kinds) > 0 && !slices.Contains(p.kinds, string(e.Kind)) {
			return nil
		}
		return show(e)
	}
}

// followEvents shows events until ctx ends. If the daemon stops answering, followEvents tries again until it answers.
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

// eventText formats an event as one line. layout is the format of its times, as in time.Format.
func eventText(e status.Event, layout string) string {
	text := e.Text
	if e.Count > 1 && e.Kind != status.EventDeadlineMissed {
		text += fmt.Sprintf(" (%d times)", e.Count)
	}
	if e.End != nil {
		text += ", until " + e.End.Local().Format(layout)
	}
	return fmt.Sprintf("%s  %-16s  %-12s  %s", e.Time.Local().Format(layout), e.Kind, cmp.Or(e.Mirror, e.Channel, e.Host, "-"), text)
}
