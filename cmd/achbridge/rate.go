package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/view"
)

func rateCommand(a *app) *cobra.Command {
	return meterCommand(a, rateFormat{
		name:  "rate",
		short: "Measure rate, bandwidth and jitter of channels",
		line: func(u *ui.Terminal, r view.Rate) error {
			return u.Line("%8.1f Hz  %s  jitter %.3f ms  longest gap %.3f ms  size %s  missed %d",
				r.Hz, ui.BytesPerSecond(r.BytesPerS), r.JitterMs, r.PeriodMaxMs, r.Sizes(), r.Missed)
		},
		header: []string{"CHANNEL", "RATE", "BANDWIDTH", "JITTER", "LONGEST GAP", "SIZE", "MISSED"},
		row: func(r view.Rate) []string {
			return []string{hertzText(r), ui.BytesPerSecond(r.BytesPerS), ui.Millis(r.JitterMs), ui.Millis(r.PeriodMaxMs), r.Sizes(), fmt.Sprint(r.Missed)}
		},
		sum: func(list []view.Rate) []string {
			return []string{"together", "", ui.BytesPerSecond(together(list).BytesPerS), "", "", "", ""}
		},
	})
}

func hzCommand(a *app) *cobra.Command {
	return meterCommand(a, rateFormat{
		name:  "hz",
		short: "Measure frame rates and jitter of channels",
		line: func(u *ui.Terminal, r view.Rate) error {
			return u.Line("%8.1f Hz  period %.3f ms (%.3f to %.3f)  jitter %.3f ms  size %s  missed %d  window %d",
				r.Hz, r.PeriodMs, r.PeriodMinMs, r.PeriodMaxMs, r.JitterMs, r.Sizes(), r.Missed, r.Frames)
		},
		header: []string{"CHANNEL", "RATE", "PERIOD", "MIN", "MAX", "JITTER", "SIZE", "MISSED"},
		row: func(r view.Rate) []string {
			return []string{hertzText(r), ui.Millis(r.PeriodMs), ui.Millis(r.PeriodMinMs), ui.Millis(r.PeriodMaxMs), ui.Millis(r.JitterMs), r.Sizes(), fmt.Sprint(r.Missed)}
		},
	})
}

func channelHzCommand(a *app) *cobra.Command {
	cmd := hzCommand(a)
	cmd.Use = "hz NAME..."
	cmd.Example = examples("achbridge ch hz imu", "achbridge ch hz 'leg-*' --window 5s --count 1 --json")
	cmd.Args = takes("NAME...")
	cmd.ValidArgsFunction = a.channelNames
	return cmd
}

func bwCommand(a *app) *cobra.Command {
	return meterCommand(a, rateFormat{
		name:  "bw",
		short: "Measure the bandwidth of channels",
		line: func(u *ui.Terminal, r view.Rate) error {
			return u.Line("%13s  from %d frames in %g s  size %.0f (%s)", ui.BytesPerSecond(r.BytesPerS), r.Frames, r.WindowS, r.SizeMean, r.Sizes())
		},
		header: []string{"CHANNEL", "BANDWIDTH", "FRAMES", "MEAN SIZE", "SIZES"},
		row: func(r view.Rate) []string {
			return []string{ui.BytesPerSecond(r.BytesPerS), fmt.Sprint(r.Frames), fmt.Sprintf("%.0f", r.SizeMean), r.Sizes()}
		},
		sum: func(list []view.Rate) []string {
			all := together(list)
			return []string{"together", ui.BytesPerSecond(all.BytesPerS), fmt.Sprint(all.Frames), "", ""}
		},
	})
}

func hertzText(r view.Rate) string { return fmt.Sprintf("%.1f Hz", r.Hz) }

// together returns the sum of the bandwidths and frames.
func together(list []view.Rate) (all view.Rate) {
	for _, r := range list {
		all.BytesPerS += r.BytesPerS
		all.Frames += r.Frames
	}
	return all
}

// rateFormat describes a command that prints the rates of channels: rate, or the former hz or bw.
type rateFormat struct {
	name, short string
	line        func(*ui.Terminal, view.Rate) error // prints one channel
	header      []string                            // column titles of the table of several channels
	row         func(view.Rate) []string            // cells of one channel, without its name
	sum         func([]view.Rate) []string          // last row of the table; nil if it has none
}

func meterCommand(a *app, v rateFormat) *cobra.Command {
	h := &rates{rateFormat: v}
	cmd := &cobra.Command{
		Use:         v.name + " HOST/CHANNEL|NAME...",
		Short:       v.short,
		Example:     examples("achbridge "+v.name+" 'krang/*'", "achbridge "+v.name+" krang.imu --window 5s --count 1 --json"),
		Annotations: docs("docs/monitoring.md"),
		Args:        takes("HOST/CHANNEL|NAME..."),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := api.CheckWindow("--window", h.window); err != nil {
				return ui.Usage(err, "")
			}
			if cmd.Flags().Changed("count") && h.count < 1 {
				return ui.Usage(fmt.Errorf("--count %d: want at least 1", h.count), "")
			}
			return nil
		},
		ValidArgsFunction: a.anyNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.rates(cmd.Context(), a.daemon(), args, h)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&h.window, "window", time.Second, "measure over the last `TIME`")
	cmd.Flags().IntVarP(&h.count, "count", "n", 0, "stop after `N` lines (default: no limit)")
	cmd.Flags().BoolVarP(&a.asJSON, "json", "j", false, "print one JSON object per line")
	a.controlFlag(cmd)
	return cmd
}

// rates is one run of a command that prints rates, with its flags and a meter for each channel.
type rates struct {
	rateFormat
	window time.Duration
	count  int  // number of reports; 0 means no limit
	single bool // the argument is one channel: print a line instead of a table
	meters []*view.Meter
	errs   []error // for each meter, the error that stopped it; nil while the meter measures
}

// failure is the error that stopped a meter, and the index of the meter in rates.meters.
type failure struct {
	meter int
	err   error
}

// rates measures local channels or HOST/CHANNEL and prints reports until --count is reached,
// no channel can be read any more, or ctx ends.
func (a *app) rates(ctx context.Context, c *api.Client, args []string, h *rates) error {
	names, err := a.Names(ctx, c, args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var reading, opening sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	h.single, h.errs = len(args) == 1 && !rule.IsPattern(args[0]), make([]error, len(names))
	failed := make(chan failure, len(names))
	for i, name := range names {
		m := &view.Meter{Channel: name, Window: h.window}
		h.meters = append(h.meters, m)
		opening.Add(1)
		ready := sync.OnceFunc(opening.Done)
		reading.Go(func() {
			defer ready()
			if err := a.Follow(ctx, c, name, func(l view.View) error { return m.Read(l, ready) }); err != nil {
				failed <- failure{i, err}
			}
		})
	}
	opening.Wait() // start the first window when all channels are open, so that it is complete for each
	return h.report(ctx, a, failed)
}

// report prints the rates at the end of the first window, then every second. A window
// shorter than a second makes it print every window.
func (h *rates) report(ctx context.Context, a *app, failed <-chan failure) error {
	tick := time.NewTicker(h.window)
	defer tick.Stop()
	hadFrames, failures := false, 0
	for shown := 0; shown == 0 || shown != h.count; {
		select {
		case <-ctx.Done():
			return nil
		case f := <-failed:
			h.errs[f.meter] = f.err
			if failures++; failures == len(h.meters) {
				return errors.Join(h.errs...)
			}
		case now := <-tick.C:
			tick.Reset(min(h.window, time.Second))
			list := h.measure(now)
			hadFrames = hadFrames || slices.ContainsFunc(list, func(r view.Rate) bool { return r.Frames > 0 })
			if err := h.show(a, list, shown); err != nil {
				return err
			}
			shown++
		}
	}
	switch {
	case hadFrames:
		return nil
	case h.single:
		return ui.NotFound(fmt.Errorf("channel %s: no frame came", h.meters[0].Channel), "is its writer running?")
	}
	return ui.NotFound(fmt.Errorf("%s: no frame came", countText(len(h.meters), "channel")), "is a writer running?")
}

// measure returns the rates of the channels that can still be read.
func (h *rates) measure(now time.Time) (list []view.Rate) {
	for i, m := range h.meters {
		if h.errs[i] == nil {
			list = append(list, m.Measure(now))
		}
	}
	return list
}

func (h *rates) show(a *app, list []view.Rate, shown int) error {
	u := a.ui
	switch {
	case a.asJSON:
		for _, r := range list {
			u.JSONLine(r)
		}
		return nil
	case h.single && list[0].Frames == 0:
		return u.Line("%8.1f Hz", 0.0)
	case h.single:
		return h.line(u, list[0])
	}
	return u.Repaint(shown, func(u *ui.Terminal) error { return h.table(u, list) })
}

func (h *rates) table(u *ui.Terminal, list []view.Rate) error {
	var rows [][]string
	for _, r := range list {
		rows = append(rows, append([]string{r.Channel}, h.row(r)...))
	}
	if h.sum != nil {
		rows = append(rows, h.sum(list))
	}
	u.Table(h.header, rows)
	if err := errors.Join(h.errs...); err != nil {
		return u.Line("%v", err)
	}
	return nil
}
