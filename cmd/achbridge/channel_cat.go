package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/values"
	"achbridge/cmd/achbridge/view"
	"achbridge/localach"
)

func channelCatCommand(a *app) *cobra.Command {
	var c cat
	cmd := &cobra.Command{
		Use:         "cat NAME",
		Short:       "Write the frames of a channel to stdout",
		Example:     examples("achbridge ch cat imu --last --hex", "achbridge ch cat imu --follow --csv > imu.csv"),
		Annotations: docs("docs/types.md"),
		Args:        takes("NAME"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.oneForm(false); err != nil {
				return err
			}
			c.values = c.values || c.given()
			c.dump = c.values
			return c.check(cmd)
		},
		ValidArgsFunction: a.channelNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.cat(cmd.Context(), nil, args[0], &c)
		},
	}
	cmd.Flags().BoolVar(&c.last, "last", false, "write only the newest frame")
	cmd.Flags().BoolVarP(&c.follow, "follow", "f", false, "wait for new frames and write them too")
	cmd.Flags().IntVarP(&c.count, "count", "n", 0, "stop after `N` frames (default: no limit)")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 0, "with --follow, stop after `TIME` without frame (default never)")
	cmd.Flags().BoolVar(&c.hex, "hex", false, "write each frame as a line of hexadecimal")
	cmd.Flags().BoolVar(&c.values, "values", false, "write values, one line per field")
	c.define(cmd)
	return cmd
}

// cat holds the flags of echo or `channel cat` and the progress of the run.
type cat struct {
	last, follow bool
	hex, dump    bool // output form; raw bytes if neither is set and printer is nil
	values       bool // print decoded values instead of a dump, if the layout is known
	count        int
	timeout      time.Duration
	out          io.Writer
	valueFlags
	printer *values.Printer // nil if the layout is not known
	later   func()          // takes over a layout that became known since; nil means that no layout is awaited
	written int
}

// cat prints frames of a local channel, or of HOST/CHANNEL.
func (a *app) cat(ctx context.Context, from *api.Client, of string, c *cat) error {
	c.out = a.ui.Out
	err := a.Follow(ctx, from, of, func(l view.View) (err error) {
		if c.values && c.printer == nil {
			if c.printer, err = a.printer(&c.valueFlags, l); err != nil {
				return err
			}
		}
		if !c.values || !c.follow {
			return c.run(l.Ctx, l.Channel)
		}
		var first *layout.Layout
		if c.printer != nil {
			first = c.printer.Layout
		}
		return a.WithLater(c.file, l, first, func(later *view.Later) error {
			c.later = func() { a.takeLater(c, of, later.Take()) }
			return c.run(l.Ctx, l.Channel)
		})
	})
	if err == nil && c.written == 0 && ctx.Err() == nil {
		fix := "is its writer running?"
		if !c.follow {
			fix = "--follow waits for one"
		}
		return ui.NotFound(fmt.Errorf("channel %s: no frame", of), fix)
	}
	return err
}

// takeLater makes c print its next frames with layout l. It does nothing if l is nil.
func (a *app) takeLater(c *cat, of string, l *layout.Layout) {
	switch {
	case l == nil:
		return
	case c.printer == nil:
		c.printer = a.printerOf(&c.valueFlags, l)
	default:
		c.printer.Take(l)
	}
	a.ui.Note("%s: its frames have another type from now on: %s", of, l)
}

// oneForm checks that the flags select at most one output form.
func (c *cat) oneForm(raw bool) error {
	n := 0
	for _, given := range []bool{raw, c.hex, c.csv, c.json, c.diff} {
		if given {
			n++
		}
	}
	switch {
	case n > 1:
		return ui.Usage(errors.New("--hex, --raw, --csv, --json and --diff: choose one"), "")
	case (raw || c.hex) && (c.values || c.given()):
		return ui.Usage(errors.New("--hex and --raw print bytes: no --values, --field or --type with them"), "")
	}
	return nil
}

func (c *cat) check(cmd *cobra.Command) error {
	switch {
	case cmd.Flags().Changed("count") && c.count < 1:
		return ui.Usage(fmt.Errorf("--count %d: want at least 1", c.count), "")
	case c.timeout < 0:
		return ui.Usage(fmt.Errorf("--timeout %v: want more than 0", c.timeout), "")
	case c.timeout > 0 && !c.follow:
		return ui.Usage(errors.New("--timeout needs --follow"), "only --follow waits for frames")
	}
	return nil
}

// run prints frames until the count is reached, no frame arrives within the timeout, or
// ctx ends. Without --follow it also stops after the newest frame.
func (c *cat) run(ctx context.Context, ch *localach.Channel) error {
	f := view.NewFollower(ch)
	next := f.Oldest
	if c.last {
		next = f.Newest
	}
	since, end := time.Now(), ch.LastSeq() // end is where to stop without --follow, even if a fast writer adds frames
	for ctx.Err() == nil {
		frame, err := next(0)
		if errors.Is(err, os.ErrDeadlineExceeded) && c.follow {
			if c.timeout > 0 && time.Since(since) > c.timeout {
				return nil
			}
			frame, err = f.Wait(next)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if c.follow {
				continue
			}
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.write(frame); err != nil {
			return err
		}
		since, next = time.Now(), f.Oldest
		if c.written == c.count || !c.follow && (c.last || f.Reader.Seq() >= end) {
			return nil
		}
	}
	return nil
}

func (c *cat) write(frame []byte) (err error) {
	if c.later != nil {
		c.later()
	}
	switch {
	case c.printer != nil:
		if frame, err = c.printer.Frame(time.Now(), frame); err != nil {
			return err
		}
	case c.hex:
		frame = append(hex.AppendEncode(nil, frame), '\n')
	case c.dump:
		frame = fmt.Appendf(nil, "--- %s  %d bytes\n%s", time.Now().Format("15:04:05.000000"), len(frame), hex.Dump(frame))
	}
	if _, err := c.out.Write(frame); err != nil {
		return err
	}
	c.written++
	return nil
}
