package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"achbridge/localach"
)

func channelHzCommand(a *app) *cobra.Command {
	h := hz{window: time.Second}
	cmd := &cobra.Command{
		Use:   "hz NAME",
		Short: "Measure how often frames come",
		Long: `Print every second, over the last --window: frames put per second, the mean and
the standard deviation (jitter) of the time between two frames, their sizes, and
how many frames came and went before they could be read (missed).`,
		Example: "  achbridge ch hz imu\n  achbridge ch hz imu --window 5s --count 1 --json",
		Args:    takes("NAME"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return h.check(cmd)
		},
		ValidArgsFunction: a.channelNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			ch, err := a.open(args[0])
			if err != nil {
				return err
			}
			defer ch.Close()
			if err := h.run(cmd.Context(), ch, a.ui); err != nil {
				return a.channelError(ch.Name(), err)
			}
			if h.frames == 0 && cmd.Context().Err() == nil {
				return nothing(fmt.Errorf("channel %s: no frame came", ch.Name()), "is its writer running?")
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&h.window, "window", h.window, "measure over the last `TIME`")
	cmd.Flags().IntVar(&h.count, "count", 0, "stop after `N` lines")
	cmd.Flags().BoolVar(&h.asJSON, "json", false, "print JSON for programs, one object a line")
	return cmd
}

// hz is what the flags of `channel hz` ask for, and how far it is.
type hz struct {
	window time.Duration
	count  int
	asJSON bool
	frames int
}

func (h *hz) check(cmd *cobra.Command) error {
	switch {
	case h.window < 100*time.Millisecond || h.window > 10*time.Minute:
		return misused(fmt.Errorf("--window %v: want 100ms to 10m", h.window), "")
	case cmd.Flags().Changed("count") && h.count < 1:
		return misused(fmt.Errorf("--count %d: want at least 1", h.count), "")
	}
	return nil
}

// run reports once a second (and not before the window has passed once) until
// the count is reached or ctx ends.
func (h *hz) run(ctx context.Context, ch *localach.Channel, ui *ui) error {
	f := follower{ch: ch, reader: ch.Reader()}
	if err := f.reader.Flush(); err != nil {
		return err
	}
	m := meter{window: h.window}
	step := min(h.window, time.Second)
	report := time.Now().Add(h.window)
	for lines := 0; ctx.Err() == nil; {
		frame, err := f.wait(f.oldest)
		now := time.Now()
		if err == nil {
			h.frames++
			m.add(arrival{at: now, seq: f.reader.Seq(), size: len(frame)})
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if now.Before(report) {
			continue
		}
		if err := h.print(ui, ch.Name(), m.measure(now)); err != nil {
			return err
		}
		if lines++; lines == h.count {
			return nil
		}
		for report = report.Add(step); report.Before(now); {
			report = report.Add(step)
		}
	}
	return nil
}

func (h *hz) print(ui *ui, name string, r rate) error {
	if h.asJSON {
		r.Channel = name
		return ui.jsonLine(r)
	}
	if r.Frames == 0 {
		return ui.line("%8.1f Hz", 0.0)
	}
	sizes := bytesText(r.SizeMin)
	if r.SizeMax != r.SizeMin {
		sizes += " to " + bytesText(r.SizeMax)
	}
	return ui.line("%8.1f Hz  period %.3f ms  jitter %.3f ms  size %s  missed %d", r.Hz, r.PeriodMs, r.JitterMs, sizes, r.Missed)
}
