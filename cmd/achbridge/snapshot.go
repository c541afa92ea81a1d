package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/recording"
	"achbridge/cmd/achbridge/ui"
)

func snapshotCommand(a *app) *cobra.Command {
	var before, after time.Duration
	cmd := &cobra.Command{
		Use:         "snapshot [FILE]",
		Short:       "Write the last frames of all channels into an MCAP file",
		Example:     examples("achbridge snapshot", "achbridge snapshot fall.mcap --before 30s --after 10s"),
		Annotations: docs("docs/recording.md"),
		Args:        takes("[FILE]"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case cmd.Flags().Changed("before") && before <= 0:
				return ui.Usage(fmt.Errorf("--before %v: want a time above zero, as in 30s", before), "")
			case after < 0:
				return ui.Usage(fmt.Errorf("--after %v: want a time, as in 10s", after), "")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path := time.Now().Format("snapshot-20060102-150405.mcap")
			if len(args) > 0 {
				path = args[0]
			}
			return a.snapshot(cmd.Context(), path, before, after)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&before, "before", 0, "begin `TIME` ago (default: all that the daemon holds)")
	cmd.Flags().DurationVar(&after, "after", 0, "go on for `TIME`, as in 10s (default 0s)")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

// snapshot copies a snapshot of the daemon into a new file, and prints its content in figures.
func (a *app) snapshot(ctx context.Context, path string, before, after time.Duration) error {
	var file *os.File
	s, err := a.daemon().Snapshot(ctx, before, after, func() (io.Writer, error) {
		var err error
		file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%s: %w", path, recording.ErrExists)
		}
		return file, err
	})
	if file == nil {
		if _, isFile := errors.AsType[*fs.PathError](err); isFile || errors.Is(err, recording.ErrExists) {
			return recordError(err)
		}
		return err
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		a.ui.Note("%s was cut short; achbridge rec info shows what is whole", path)
		if _, isFile := errors.AsType[*fs.PathError](err); isFile {
			return recordError(err)
		}
		return err
	}
	s.File = path
	return show(a, s, a.showSnapshot)
}

func (a *app) showSnapshot(s api.Snapshot) error {
	if s.Lost > 0 {
		a.ui.Note("%s are missing: they left the daemon's memory before they were written", countText(s.Lost, "message"))
	}
	covers := time.Duration(0)
	if s.From != nil {
		covers = s.Until.Sub(*s.From)
	}
	return a.ui.Line("%s: %s; %s in %s", s.File, ui.AboutBytes(s.Bytes), framesText(s.Frames, s.Channels), roughTime(covers))
}
