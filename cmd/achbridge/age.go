package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge"
)

func ageCommand(a *app) *cobra.Command {
	var path string
	q := ageQuery{window: 10 * time.Second}
	cmd := &cobra.Command{
		Use:   "age HOST/CHANNEL|MIRROR",
		Short: "Measure how old the frames of a mirror are",
		Long: `Watch a mirror for a while and tell how old its newest frame was: the age that a
program sees which looks at the mirror at any moment. mean, p50 and p99 (not
exceeded for half and 99 % of the time) are weighted by time; peak is the greatest.
All may be off by what is known of the other host's clock, and begin when the
other daemon saw the frame in its channel.

A channel that is not mirrored is, as long as it takes: at the lowest priority.
With --fail-over it exits with 4 when p99 is over that, and with 1 when the age
could not be told.`,
		Example: "  achbridge age krang/imu\n  achbridge age krang.imu --window 30s --fail-over 50ms",
		Args:    takes("HOST/CHANNEL|MIRROR"),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			q.of = args[0]
			return q.check(cmd)
		},
		ValidArgsFunction: a.remoteNames(&path),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.age(cmd.Context(), a.client(path), q)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&q.window, "window", q.window, "watch for this `TIME`")
	cmd.Flags().DurationVar(&q.most, "fail-over", 0, "fail when p99 is over this `TIME`")
	jsonFlag(cmd, &q.asJSON)
	controlFlag(cmd, &path)
	return cmd
}

// ageQuery is what the flags of `age` ask for.
type ageQuery struct {
	of     string
	window time.Duration
	most   time.Duration // 0: as old as it likes
	asJSON bool
}

// A window is so long.
const (
	leastWindow = 100 * time.Millisecond
	mostWindow  = 10 * time.Minute
)

func checkWindow(what string, window time.Duration) error {
	if window < leastWindow || window > mostWindow {
		return fmt.Errorf("%s %v: want %v to %v", what, window, leastWindow, mostWindow)
	}
	return nil
}

func (q ageQuery) check(cmd *cobra.Command) error {
	if err := checkWindow("--window", q.window); err != nil {
		return misused(err, "")
	}
	if cmd.Flags().Changed("fail-over") && q.most <= 0 {
		return misused(fmt.Errorf("--fail-over %v: want a time above zero, as in 50ms", q.most), "")
	}
	return nil
}

func (a *app) age(ctx context.Context, c *client, q ageQuery) error {
	c.http.Timeout += q.window
	var r bridge.AgeReport
	answer, err := c.get(ctx, "/v1/age?"+url.Values{"of": {q.of}, "window": {q.window.String()}}.Encode(), &r)
	if err != nil {
		return err
	}
	if q.asJSON {
		err = a.ui.json(answer)
	} else {
		err = a.showAge(r)
	}
	switch w := r.Window; {
	case err != nil:
		return err
	case w == nil:
		return failed(fmt.Errorf("%s: its age is not known: no frame came whose age could be told", r.Name), "see achbridge status")
	case q.most > 0 && w.P99Ms > float64(q.most)/float64(time.Millisecond):
		return tooMuch(fmt.Errorf("%s: p99 of its age is %s, over %v", r.Name, millis(w.P99Ms), q.most), "")
	}
	return nil
}

func (a *app) showAge(r bridge.AgeReport) error {
	if r.Window == nil {
		return nil
	}
	w := r.Window
	return a.ui.fields(
		"mirror", r.Name+" of "+r.Host+"/"+r.Channel,
		"mean", millis(w.MeanMs),
		"p50", millis(w.P50Ms),
		"p99", millis(w.P99Ms),
		"peak", millis(w.PeakMs),
		"over budget", fmt.Sprintf("%.2f %% of %.3g s over %s", 100*w.OverBudget, w.WindowS, millis(r.BudgetMs)),
		"clock", "± "+millis(r.UncertaintyMs),
	)
}

// age measures the age of the mirror of HOST/CHANNEL, or of that name.
func (c *control) age(ctx context.Context, query url.Values) (r bridge.AgeReport, err error) {
	of := query.Get("of")
	window, err := time.ParseDuration(query.Get("window"))
	if err == nil {
		err = checkWindow("window", window)
	}
	if err != nil {
		return r, badRequest{err}
	}
	for _, m := range c.node.Glance().Mirrors {
		if of != m.Name && strings.TrimPrefix(of, "ach://") != m.Host+"/"+m.Channel {
			continue
		}
		r, err = c.node.Age(ctx, m.Name, window)
		if errors.Is(err, fs.ErrNotExist) { // it is wished for, and there was nothing to mirror yet
			return bridge.AgeReport{Host: m.Host, Channel: m.Channel, Name: m.Name}, nil
		}
		return r, err
	}
	return c.ageForAWhile(ctx, of, window)
}

// ageForAWhile measures the age of a mirror that is made for it.
func (c *control) ageForAWhile(ctx context.Context, of string, window time.Duration) (r bridge.AgeReport, err error) {
	a, err := oneChannel(of)
	if err != nil {
		return r, noMirror(of)
	}
	m, end, err := c.lookAt(ctx, a)
	if err != nil {
		return r, err
	}
	defer end()
	return c.node.Age(ctx, m.Name, window)
}

// noMirror says that there is no mirror of that name, or of that channel.
type noMirror string

func (n noMirror) Error() string {
	return fmt.Sprintf("no mirror is called or of %q: see achbridge status", string(n))
}
func (noMirror) Is(target error) bool { return target == fs.ErrNotExist }
