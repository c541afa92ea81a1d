package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge"
)

func eventsCommand(a *app) *cobra.Command {
	var path string
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened",
		Long: `Show what happened to links, mirrors and channels, oldest first: the newest 512
events since the daemon began. With --follow go on with those that come, also when
the daemon was started anew. The kinds are

` + kindsText() + `

mirror_stale comes at once when no frame came within the deadline of a mirror,
mirror_fresh when frames have come in time for a while: a second, and longer each
time the mirror is stale again soon. What it misses meanwhile is deadline_missed,
told every ten seconds with the number. --json prints one object a line.`,
		Example: "  achbridge events\n  achbridge events --follow --json",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := a.client(path)
			if follow {
				return a.followEvents(cmd.Context(), c, asJSON)
			}
			var f eventFollower
			l, err := f.next(cmd.Context(), c, 0)
			if err != nil {
				return err
			}
			return a.showEvents(l, asJSON)
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "wait for what happens")
	jsonFlag(cmd, &asJSON)
	controlFlag(cmd, &path)
	return cmd
}

func kindsText() string {
	words := make([]string, len(bridge.EventKinds))
	for i, k := range bridge.EventKinds {
		words[i] = string(k)
	}
	return "  " + wrapped(words, 2, 79)
}

// eventFollower asks the daemon for what happened since it asked last.
type eventFollower struct {
	run   string
	after uint64
}

// next waits for news, for as long as wait at most. Of a daemon that was started
// anew it takes everything.
func (f *eventFollower) next(ctx context.Context, c *client, wait time.Duration) (bridge.EventList, error) {
	query := url.Values{"after": {strconv.FormatUint(f.after, 10)}}
	if wait > 0 {
		query.Set("wait", wait.String())
	}
	var l bridge.EventList
	if _, err := c.get(ctx, "/v1/events?"+query.Encode(), &l); err != nil {
		return l, err
	}
	if anew := f.run != "" && f.run != l.Run; anew {
		f.run, f.after = l.Run, 0
		return f.next(ctx, c, wait)
	}
	f.run = l.Run
	if n := len(l.Events); n > 0 {
		f.after = l.Events[n-1].Seq
	}
	return l, nil
}

// A follower asks the daemon again after eventWait, and after askAgain when it does
// not answer.
const (
	eventWait = 5 * time.Second
	askAgain  = time.Second
)

// followEvents shows events until ctx ends. A daemon that ends is waited for.
func (a *app) followEvents(ctx context.Context, c *client, asJSON bool) error {
	var f eventFollower
	lost := false
	for ctx.Err() == nil {
		l, err := f.next(ctx, c, eventWait)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && f.run == "":
			return err
		case err != nil:
			if !lost {
				a.ui.note("%v; trying again", err)
			}
			lost = true
			rest(ctx, askAgain)
			continue
		}
		if lost {
			a.ui.note("the daemon answers again")
			lost = false
		}
		if err := a.showEvents(l, asJSON); err != nil {
			return err
		}
	}
	return nil
}

// rest waits for d or the end of ctx.
func rest(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

func (a *app) showEvents(l bridge.EventList, asJSON bool) error {
	if l.Missed > 0 {
		a.ui.note("%d events are not kept any more", l.Missed)
	}
	for _, e := range l.Events {
		show := func() error { return a.ui.line("%s", eventText(e, "2006-01-02 15:04:05.000")) }
		if asJSON {
			show = func() error { return a.ui.jsonLine(e) }
		}
		if err := show(); err != nil {
			return err
		}
	}
	return nil
}

// eventText is an event on a line, with its time in layout.
func eventText(e bridge.Event, layout string) string {
	text := e.Text
	if e.Count > 1 && e.Kind != bridge.DeadlineMissed {
		text += fmt.Sprintf(" (%d times)", e.Count)
	}
	return fmt.Sprintf("%s  %-16s  %-12s  %s", e.Time.Local().Format(layout), e.Kind, cmp.Or(e.Mirror, e.Channel, e.Host, "-"), text)
}

// mostEventWait is how long a request waits for events at most.
const mostEventWait = time.Minute

// events answers a follower.
func (c *control) events(ctx context.Context, query url.Values) (bridge.EventList, error) {
	after, err := strconv.ParseUint(cmp.Or(query.Get("after"), "0"), 10, 64)
	if err != nil {
		return bridge.EventList{}, badRequest{fmt.Errorf("after %q: want the number of an event", query.Get("after"))}
	}
	wait, err := time.ParseDuration(cmp.Or(query.Get("wait"), "0s"))
	if err != nil || wait < 0 || wait > mostEventWait {
		return bridge.EventList{}, badRequest{fmt.Errorf("wait %q: want a time up to %v, as in 5s", query.Get("wait"), mostEventWait)}
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return c.node.Events(ctx, after)
}
