package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

func channelHzCommand(a *app) *cobra.Command {
	cmd := hzCommand(a)
	cmd.Use = "hz NAME..."
	cmd.Long = cmd.Short + " on a channel of this host, or on all that match a pattern;\nachbridge hz does so for those of others, too."
	cmd.Example = "  achbridge ch hz imu\n  achbridge ch hz imu --window 5s --count 1 --json"
	cmd.Args = takes("NAME...")
	cmd.ValidArgsFunction = a.channelNames
	return cmd
}

// hz is what the flags of hz and bw ask for, and how far it is.
type hz struct {
	window time.Duration
	count  int
	asJSON bool
	frames int
	lines  int
	rateVerb
}

func (h *hz) flags(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&h.window, "window", time.Second, "measure over the last `TIME`")
	cmd.Flags().IntVarP(&h.count, "count", "n", 0, "stop after `N` lines")
	cmd.Flags().BoolVarP(&h.asJSON, "json", "j", false, "print JSON for programs, one object a line")
}

func (h *hz) check(cmd *cobra.Command) error {
	switch {
	case h.window < 100*time.Millisecond || h.window > 10*time.Minute:
		return ui.Usage(fmt.Errorf("--window %v: want 100ms to 10m", h.window), "")
	case cmd.Flags().Changed("count") && h.count < 1:
		return ui.Usage(fmt.Errorf("--count %d: want at least 1", h.count), "")
	}
	return nil
}

// run reports once a second (and not before the window has passed once) until
// the count is reached or ctx ends.
func (h *hz) run(ctx context.Context, ch *localach.Channel, name string, u *ui.Terminal) error {
	m := meter{window: h.window}
	step := min(h.window, time.Second)
	report := time.Now().Add(h.window)
	return readAll(ctx, ch, func(now time.Time, a arrival) (more bool, err error) {
		if a.seq != 0 {
			h.frames++
			m.add(a)
		}
		if now.Before(report) {
			return true, nil
		}
		if err := h.show(u, name, m.measure(now)); err != nil {
			return false, err
		}
		for report = report.Add(step); report.Before(now); {
			report = report.Add(step)
		}
		h.lines++
		return h.lines != h.count, nil
	})
}

// readAll calls got with each frame that comes into ch, and now and then without one,
// whose number is 0 then, until it wants no more or ctx ends.
func readAll(ctx context.Context, ch *localach.Channel, got func(now time.Time, a arrival) (more bool, err error)) error {
	f := follower{ch: ch, reader: ch.Reader()}
	if err := f.reader.Flush(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		frame, err := f.wait(f.oldest)
		var a arrival
		now := time.Now()
		if err == nil {
			a = arrival{at: now, seq: f.reader.Seq(), size: len(frame)}
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if more, err := got(now, a); err != nil || !more {
			return err
		}
	}
	return nil
}

func (h *hz) show(u *ui.Terminal, name string, r rate) error {
	if h.asJSON {
		r.Channel = name
		return u.JSONLine(r)
	}
	if r.Frames == 0 {
		return u.Line("%8.1f Hz", 0.0)
	}
	return h.print(u, r)
}

// hz measures channels of this host, or HOST/CHANNEL.
func (a *app) hz(ctx context.Context, c *api.Client, args []string, h *hz) error {
	if len(args) > 1 || rule.IsPattern(args[0]) {
		return a.hzTable(ctx, c, args, h)
	}
	of := args[0]
	err := a.follow(ctx, c, of, func(l view) error { return h.run(l.ctx, l.Channel, of, a.ui) })
	if err == nil && h.frames == 0 && ctx.Err() == nil {
		return ui.NotFound(fmt.Errorf("channel %s: no frame came", of), "is its writer running?")
	}
	return err
}
