package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/recording"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/view"
)

func recCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "rec",
		Short:       "Record channels, play, describe and export recordings",
		Example:     examples("achbridge rec record -o run.mcap", "achbridge rec play run.mcap"),
		Annotations: docs("docs/recording.md"),
	}
	for _, c := range []*cobra.Command{recordCommand(a), playCommand(a), infoCommand(a), exportCommand(a)} {
		c.Example = strings.ReplaceAll(c.Example, "achbridge ", "achbridge rec ")
		cmd.AddCommand(c)
	}
	return needsCommand(cmd)
}

func recordCommand(a *app) *cobra.Command {
	var file string
	var of valueFlags
	var maxSize ui.Size
	var maxTime, length time.Duration
	cmd := &cobra.Command{
		Use:         "record [PATTERN...]",
		Short:       "Record channels of this host into an MCAP file",
		Example:     examples("achbridge record -o run.mcap", "achbridge record imu 'krang.*' -o run.mcap --for 30s"),
		Annotations: docs("docs/recording.md"),
		Args:        takes("[PATTERN]..."),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if of.file != "" && len(args) == 0 {
				return ui.Usage(errors.New("--type needs the channels that have this layout"), "name them: achbridge rec record imu --type "+of.file+" -o run.mcap")
			}
			return checkRecord(cmd, args, file, maxSize, maxTime, length)
		},
		ValidArgsFunction: a.channelNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := cmd.Context(), func() {}
			if length > 0 {
				ctx, cancel = context.WithTimeout(ctx, length)
			}
			defer cancel()
			types, err := a.types(&of)
			if err != nil {
				return err
			}
			return a.record(ctx, recording.Config{
				Type: types, OriginType: a.originTypes(&of),
				Dir: a.Dir, Patterns: args, Note: a.ui.Note, Mirrors: a.mirrors,
				Files: recording.Files{Path: file, MaxSize: int64(maxSize), MaxTime: maxTime},
			})
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVarP(&file, "output", "o", "", "write a new `FILE`, as in run.mcap (required)")
	cmd.Flags().DurationVar(&length, "for", 0, "stop after `TIME`, as in 30s (default: on Ctrl-C)")
	cmd.Flags().Var(&maxSize, "max-size", "start a new file after `BYTES`, as in 64MiB (default never)")
	cmd.Flags().DurationVar(&maxTime, "max-time", 0, "start a new file after `TIME`, as in 10m (default never)")
	of.defineType(cmd)
	_ = cmd.MarkFlagFilename("output", "mcap")
	a.controlFlag(cmd)
	return cmd
}

func checkRecord(cmd *cobra.Command, patterns []string, file string, maxSize ui.Size, maxTime, length time.Duration) error {
	switch {
	case file == "":
		return ui.Usage(errors.New("record: no file is named"), "name one: achbridge rec record -o run.mcap")
	case cmd.Flags().Changed("for") && length <= 0:
		return ui.Usage(fmt.Errorf("--for %v: want a time above zero, as in 30s", length), "")
	case cmd.Flags().Changed("max-size") && maxSize < 64<<10:
		return ui.Usage(fmt.Errorf("--max-size %v: want 64KiB at least", &maxSize), "")
	case cmd.Flags().Changed("max-time") && maxTime < time.Second:
		return ui.Usage(fmt.Errorf("--max-time %v: want 1s at least", maxTime), "")
	}
	return view.CheckPatterns(patterns)
}

// mirrors returns the daemon's mirrors. It returns an error if no daemon runs.
func (a *app) mirrors(ctx context.Context) ([]status.Mirror, error) {
	var s api.StatusReply
	_, err := a.daemon().Get(ctx, "/v1/status", &s)
	return s.Mirrors, err
}

// types returns a function that finds the layout of a channel in --type, the configuration or its publisher.
// The function returns nil if there is none.
func (a *app) types(of *valueFlags) (func(channel, name string) (*recording.Type, error), error) {
	find, err := a.LocalLayouts(of.file)
	if err != nil {
		return nil, err
	}
	return func(channel, name string) (*recording.Type, error) {
		l, err := find(channel, name)
		if err != nil || l == nil {
			return nil, err
		}
		return recording.NewType(l, status.TypeFromFile)
	}, nil
}

// originTypes returns a function that requests the layout of a mirror from its origin, through
// the daemon. It returns nil if --type names the layout. If the daemon once does not answer,
// the function does not ask again, because frames wait for the answer.
func (a *app) originTypes(of *valueFlags) func(context.Context, string) (*recording.Type, error) {
	if of.file != "" {
		return nil
	}
	c := a.daemon()
	var hangs atomic.Bool
	return func(ctx context.Context, name string) (*recording.Type, error) {
		if hangs.Load() {
			return nil, view.ErrNoAnswer
		}
		l, err := view.OriginLayout(ctx, c, name)
		if errors.Is(err, view.ErrNoAnswer) {
			hangs.Store(true)
		}
		if err != nil || l == nil {
			return nil, err
		}
		return recording.NewType(l, status.TypeFromOrigin)
	}
}

// record runs a recording and prints each file that it wrote.
func (a *app) record(ctx context.Context, cfg recording.Config) error {
	system, _ := os.Hostname()
	cfg.Host = config.HostName(system)
	cfg.Files.Facts = map[string]string{"host": cfg.Host, "version": version()}
	report, err := recording.Run(ctx, cfg)
	for i, f := range report.Files {
		if i < len(report.Files)-1 {
			a.ui.Line("%s: %s", f.Path, ui.AboutBytes(f.Bytes))
			continue
		}
		if err != nil {
			break // after an error, the report may differ from the content of the last file
		}
		a.ui.Line("%s: %s; %s in %s, missed %d", f.Path, ui.AboutBytes(f.Bytes),
			framesText(report.Frames, report.Channels), roughTime(report.Took), report.Missed)
	}
	return recordError(err)
}

// recordError adds a fix to an error of a recording.
func recordError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, recording.ErrExists):
		return ui.Failure(err, "remove it, or choose another name: a recording is never written over")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return ui.Failure(fmt.Errorf("recording ended: %w", err),
			"make room and record into another file; achbridge rec info and rec play read this one up to there")
	case errors.Is(err, fs.ErrNotExist):
		return ui.Failure(err, "make the directory first")
	case errors.Is(err, fs.ErrPermission):
		return ui.Failure(err, "choose a place where you may write")
	}
	return ui.Failure(err, "")
}

func framesText(frames uint64, channels int) string {
	return fmt.Sprintf("%s of %s", countText(frames, "frame"), countText(channels, "channel"))
}

func countText[N int | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func roughTime(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return ui.Seconds(d.Round(time.Second).Seconds())
}
