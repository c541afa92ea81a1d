package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/recording"
	"achbridge/cmd/achbridge/ui"
)

func infoCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "info FILE",
		Short:       "Show the channels, rates and losses of a recording",
		Example:     examples("achbridge info run.mcap", "achbridge info run.mcap --json"),
		Annotations: docs("docs/recording.md"),
		Args:        takes("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := recording.Summarize(args[0])
			if err != nil {
				return fileError(args[0], err)
			}
			return show(a, s, a.showRecording)
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) showRecording(s recording.Summary) error {
	start, end := "", "properly"
	if s.Start != nil {
		start = s.Start.Local().Format("2006-01-02 15:04:05.000")
	}
	if !s.Complete {
		end = "cut short; this is what is whole"
	}
	a.ui.Fields(
		"file", s.File,
		"size", ui.AboutBytes(s.Bytes),
		"host", recording.Printable(s.Host),
		"trigger", recording.Printable(s.Trigger),
		"start", start,
		"duration", roughTime(time.Duration(s.Seconds*float64(time.Second))),
		"frames", fmt.Sprint(s.Frames),
		"missed", fmt.Sprint(s.Missed),
		"ended", end,
	)
	if len(s.Channels) == 0 {
		return nil
	}
	var rows [][]string
	for _, c := range s.Channels {
		late := ""
		if c.Late != nil {
			late = fmt.Sprintf("%.1f, %.1f ms", c.Late.MeanMs, c.Late.MaxMs)
		}
		rows = append(rows, []string{recording.Printable(c.Channel), fmt.Sprint(c.Frames), rateText(c.Hz), sizesText(c), c.Type, fmt.Sprint(c.Missed), late, causesText(c.Drops)})
	}
	a.ui.Line("")
	a.ui.Table([]string{"CHANNEL", "FRAMES", "RATE", "SIZE", "TYPE", "MISSED", "LATE", "DROPPED"}, rows)
	return a.showTypes(s.Channels)
}

// showTypes prints notes on the types of recorded channels: types that came from the origin,
// missing schemas, frames of another size, and renamed fields.
func (a *app) showTypes(list []recording.ChannelSummary) error {
	blank := "\n"
	for _, c := range list {
		var lines []string
		if c.TypeFrom == status.TypeFromOrigin {
			lines = append(lines, "its type is the one that its origin sent")
		}
		if c.NoSchema != "" {
			lines = append(lines, "has no schema: "+c.NoSchema)
		}
		if c.Mismatches > 0 {
			lines = append(lines, countText(c.Mismatches, "frame")+" recorded without the type "+c.Type+", since the bytes do not fit")
		}
		for _, r := range c.Renamed {
			lines = append(lines, r.Field+" is called "+r.As)
		}
		for _, line := range lines {
			a.ui.Line("%s%s: %s", blank, recording.Printable(c.Channel), line)
			blank = ""
		}
	}
	return nil
}

func rateText(hz float64) string {
	if hz == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f Hz", hz)
}

func sizesText(c recording.ChannelSummary) string {
	if c.Frames == 0 {
		return ""
	}
	return ui.SizeRange(c.SizeMin, c.SizeMax)
}

func causesText(drops map[string]uint64) string {
	var list []string
	for _, cause := range slices.Sorted(maps.Keys(drops)) {
		list = append(list, fmt.Sprintf("%s %d", recording.Printable(cause), drops[cause]))
	}
	return strings.Join(list, ", ")
}
