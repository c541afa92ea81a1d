package main

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/spf13/cobra"

	"achbridge/bridge/mirror"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/view"
	"achbridge/localach"
)

// channelRow is one local channel in the JSON output of `channel ls`.
type channelRow struct {
	Channel    string      `json:"channel"`
	Kind       status.Kind `json:"kind,omitempty"` // empty or kernel; the geometry and seq of a kernel channel are not known
	FrameCount int         `json:"frame_count"`
	FrameSize  int         `json:"frame_size"`
	Seq        uint64      `json:"seq"`
	Mode       string      `json:"mode"`
	Mirror     bool        `json:"mirror"`
	MetaOf     string      `json:"meta_of,omitempty"` // the mirror that this metadata channel describes, see mirror --meta
	Note       string      `json:"note,omitempty"`    // a hint or warning about the channel
	Error      string      `json:"error,omitempty"`
	Ach1x      bool        `json:"ach_1x,omitempty"`     // made with Ach 1.x, so achbridge only reads it
	Unsendable string      `json:"unsendable,omitempty"` // why no other host can mirror the channel, and the fix
}

func channelLsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "ls [PATTERN]",
		Short:             "List the channels of this host",
		Example:           examples("achbridge ch ls", "achbridge ch ls 'krang.*'"),
		Annotations:       docs("docs/monitoring.md"),
		Args:              takes("[PATTERN]"),
		ValidArgsFunction: a.channelNames,
		RunE: func(_ *cobra.Command, args []string) error {
			pattern := "*"
			if len(args) > 0 {
				pattern = args[0]
			}
			if _, err := path.Match(pattern, ""); err != nil {
				return view.NoPattern(pattern)
			}
			infos, err := a.Dir.List()
			if err != nil {
				return ui.Failure(err, "")
			}
			rows := withKernel(channelRows(infos, pattern), a.Dir.KernelDevices(), pattern)
			if err := show(a, rows, a.showChannels); err != nil || len(rows) > 0 {
				return err
			}
			return noChannel(pattern)
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func noChannel(pattern string) error {
	if pattern == "*" {
		return ui.NotFound(errors.New("no channels on this host"), "achbridge channel create NAME makes one")
	}
	return ui.NotFound(fmt.Errorf("no channel %s on this host", pattern), "achbridge channel ls lists all")
}

func channelRows(infos []localach.Info, pattern string) []channelRow {
	rows := []channelRow{}
	for _, info := range infos {
		if ok, _ := path.Match(pattern, info.Name); !ok {
			continue
		}
		row := channelRow{
			Channel:    info.Name,
			FrameCount: info.Geometry.FrameCount,
			FrameSize:  info.Geometry.FrameSize,
			Seq:        info.LastSeq,
			Mode:       fmt.Sprintf("%04o", info.Mode.Perm()),
			Mirror:     info.Mirror,
			Ach1x:      info.IsAch1x,
		}
		if of, ok := mirror.MetaOf(info.Name, info.Tag); ok {
			row.Mirror, row.MetaOf = false, of
		}
		if info.Err != nil {
			row.Error = info.Err.Error()
		} else {
			row.Unsendable = mirror.Unsendable(info.Geometry)
			if err := info.Geometry.Check(); err != nil {
				row.Note = err.Error()
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// withKernel adds a row for each kernel channel without a channel of that name in shared memory. The rows of the other kernel
// channels get a note.
func withKernel(rows []channelRow, devices []localach.Device, pattern string) []channelRow {
	for _, d := range devices {
		i := slices.IndexFunc(rows, func(r channelRow) bool { return r.Channel == d.Name })
		if ok, _ := path.Match(pattern, d.Name); i >= 0 {
			rows[i].Note = cmp.Or(diagnose.HiddenBy(d, true), diagnose.CopiedTo(d, true))
		} else if ok {
			rows = append(rows, channelRow{Channel: d.Name, Kind: status.KindKernel, Mode: fmt.Sprintf("%04o", d.Mode)})
		}
	}
	return rows
}

func (a *app) showChannels(rows []channelRow) error {
	if len(rows) == 0 {
		return nil
	}
	cells := make([][]string, len(rows))
	for i, r := range rows {
		note := cmp.Or(r.Error, r.Note, r.Unsendable)
		if r.Mirror {
			note = cmp.Or(note, "mirror")
		}
		if r.Ach1x {
			note = cmp.Or(note, diagnose.Ach1xNote)
		}
		if r.MetaOf != "" {
			note = cmp.Or(note, "describes "+r.MetaOf)
		}
		frames, seq := geometryText(r.FrameCount, r.FrameSize), fmt.Sprint(r.Seq)
		if r.Kind != "" {
			frames, seq = string(r.Kind), "-"
		}
		cells[i] = []string{r.Channel, frames, seq, r.Mode, note}
	}
	return a.ui.Table([]string{"CHANNEL", "FRAMES", "SEQ", "MODE", "NOTE"}, cells)
}

// geometryText returns the number and size of the frames, or "" if they are unknown.
func geometryText(count, bytes int) string {
	if count == 0 {
		return ""
	}
	return fmt.Sprintf("%d x %s", count, ui.Bytes(bytes))
}
