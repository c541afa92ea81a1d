package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/publish"
	"achbridge/cmd/achbridge/ui"
	"achbridge/localach"
)

func publishCommand(a *app) *cobra.Command {
	var length time.Duration
	frames := publish.DefaultFrames
	cmd := &cobra.Command{
		Use:         "publish CHANNEL:HZ:SIZE...",
		Short:       "Put test data into new channels",
		Example:     examples("achbridge publish imu:1000:64", "achbridge publish imu:1000:64 camera:10:1MiB --for 30s"),
		Annotations: docs("README.md"),
		Args:        takes("CHANNEL:HZ:SIZE..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			streams, err := publish.ParseStreams(args)
			if err != nil {
				return ui.Usage(err, "")
			}
			if cmd.Flags().Changed("for") && length <= 0 {
				return ui.Usage(fmt.Errorf("--for %v: want a time above zero, as in 30s", length), "")
			}
			for i := range streams {
				streams[i].Frames = frames
				if err := (localach.Geometry{FrameCount: frames, FrameSize: streams[i].Size}).Check(); err != nil {
					return ui.Usage(fmt.Errorf("--frames %d: %w", frames, err), "")
				}
			}
			a.ui.Detach() // stderr then does not block, so a stopped terminal (Ctrl-S) does not stop the puts
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGPIPE)
			defer stop()
			defer a.ui.Flush() // before stop: after stop, a write to a closed pipe can end the process
			if length > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, length)
				defer cancel()
			}
			// why, doctor and channel rm ignore processes called achbridge. They must count this process among the robot's programs.
			if err := os.WriteFile("/proc/self/comm", []byte("publish"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
				return ui.Failure(err, "")
			}
			log := slog.New(slog.NewTextHandler(a.ui.Err, nil))
			return publish.Run(ctx, publish.Config{Dir: a.Dir, Streams: streams, Log: log})
		},
	}
	cmd.Flags().IntVar(&frames, "frames", frames, "let each channel hold `N` frames")
	cmd.Flags().DurationVar(&length, "for", 0, "stop after `TIME`, as in 30s (default: on Ctrl-C)")
	return cmd
}
