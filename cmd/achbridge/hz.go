package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/ui"
)

func hzCommand(a *app) *cobra.Command {
	return rateCommand(a, rateVerb{
		use:   "hz HOST/CHANNEL|NAME...",
		short: "Measure how often frames come",
		long: `Print every second, for the last --window: frames put per second, the time between
two frames (average, shortest and longest), its standard deviation (jitter), the sizes
of frames, and how many frames were gone before they could be read (missed).`,
		print: func(u *ui.Terminal, r rate) error {
			return u.Line("%8.1f Hz  period %.3f ms (%.3f to %.3f)  jitter %.3f ms  size %s  missed %d  window %d",
				r.Hz, r.PeriodMs, r.PeriodMinMs, r.PeriodMaxMs, r.JitterMs, r.sizes(), r.Missed, r.Frames)
		},
		header: []string{"CHANNEL", "RATE", "PERIOD", "MIN", "MAX", "JITTER", "SIZE", "MISSED"},
		row: func(r rate) []string {
			return []string{fmt.Sprintf("%.1f Hz", r.Hz), ui.Millis(r.PeriodMs), ui.Millis(r.PeriodMinMs), ui.Millis(r.PeriodMaxMs), ui.Millis(r.JitterMs), r.sizes(), fmt.Sprint(r.Missed)}
		},
	})
}

func bwCommand(a *app) *cobra.Command {
	return rateCommand(a, rateVerb{
		use:   "bw HOST/CHANNEL|NAME...",
		short: "Measure how many bytes frames take",
		long: `Print every second, for the last --window: bytes of frames put per second, the number
of frames, and their sizes (average, smallest and largest).`,
		print: func(u *ui.Terminal, r rate) error {
			return u.Line("%13s  from %d frames in %g s  size %.0f (%s)", ui.BytesPerSecond(r.BytesPerS), r.Frames, r.WindowS, r.SizeMean, r.sizes())
		},
		header: []string{"CHANNEL", "BANDWIDTH", "FRAMES", "MEAN SIZE", "SIZES"},
		row: func(r rate) []string {
			return []string{ui.BytesPerSecond(r.BytesPerS), fmt.Sprint(r.Frames), fmt.Sprintf("%.0f", r.SizeMean), r.sizes()}
		},
		sum: func(list []rate) []string {
			var all rate
			for _, r := range list {
				all.BytesPerS += r.BytesPerS
				all.Frames += r.Frames
			}
			return []string{"together", ui.BytesPerSecond(all.BytesPerS), fmt.Sprint(all.Frames), "", ""}
		},
	})
}

// rateVerb is a verb that prints what a meter has measured.
type rateVerb struct {
	use, short, long string
	print            func(*ui.Terminal, rate) error
	header           []string              // of a table of several channels
	row              func(rate) []string   // without the name
	sum              func([]rate) []string // its last row; nil: it has none
}

// severalHelp is what hz and bw say of several channels.
const severalHelp = `

Several channels, or a pattern (quoted), are measured at once and shown in one table,
every second anew.`

// remoteHelp is what hz, bw and echo say of channels of other hosts.
const remoteHelp = `

HOST/CHANNEL is a channel of another host; the running daemon is asked for it. If it
has no mirror here, the daemon makes a temporary one, at the lowest priority. NAME is
a channel or a mirror of this host; that needs no daemon.`

func rateCommand(a *app, v rateVerb) *cobra.Command {
	h := &hz{rateVerb: v}
	var path string
	cmd := &cobra.Command{
		Use:     v.use,
		Short:   v.short,
		Long:    v.long + severalHelp + remoteHelp,
		Example: example(v.use, "krang/imu", "'krang/*'", "krang.imu --window 5s --count 1 --json"),
		Args:    takes("HOST/CHANNEL|NAME..."),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return h.check(cmd)
		},
		ValidArgsFunction: a.anyNames(&path),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.hz(cmd.Context(), a.client(path), args, h)
		},
	}
	h.flags(cmd)
	controlFlag(cmd, &path)
	return cmd
}

// example shows a verb with what follows it.
func example(use string, tails ...string) string {
	verb, _, _ := strings.Cut(use, " ")
	lines := make([]string, len(tails))
	for i, tail := range tails {
		lines[i] = "  achbridge " + verb + " " + tail
	}
	return strings.Join(lines, "\n")
}
