package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/unit"
	"achbridge/cmd/achbridge/recording"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/view"
	"achbridge/localach"
)

func playCommand(a *app) *cobra.Command {
	play := recording.Play{Rate: 1}
	var remap []string
	cmd := &cobra.Command{
		Use:         "play FILE [PATTERN...]",
		Short:       "Put the frames of a recording back into channels",
		Example:     examples("achbridge play run.mcap", "achbridge play run.mcap --remap krang.imu=imu --speed 0.5"),
		Annotations: docs("docs/recording.md"),
		Args:        takes("FILE", "[PATTERN]..."),
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			if !(play.Rate > 0 && play.Rate <= 1000) {
				return ui.Usage(fmt.Errorf("--speed %v: want more than 0 and 1000 at most", play.Rate), "")
			}
			if play.Remap, err = recording.Remapping(remap); err != nil {
				return ui.Usage(fmt.Errorf("--remap %w", err), "")
			}
			return view.CheckPatterns(args[1:])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			play.Dir, play.File, play.Patterns = a.Dir, args[0], args[1:]
			return a.play(cmd.Context(), play)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().Float64Var(&play.Rate, "speed", play.Rate, "play `FACTOR` times as fast")
	cmd.Flags().BoolVar(&play.AsRecorded, "as-recorded", false, "play by the times of reading instead of capture")
	cmd.Flags().StringArrayVar(&remap, "remap", nil, "put frames of channel A into B, given `A=B` (default none)")
	return cmd
}

// lateNote is how late a frame may be put before play prints a note.
const lateNote = 10 * time.Millisecond

func (a *app) play(ctx context.Context, play recording.Play) error {
	play.OnGap = func(wait time.Duration) {
		a.ui.Note("waiting %s: the recording has a gap", unit.Time(wait.Round(100*time.Millisecond)))
	}
	played, err := play.Run(ctx)
	if played.Frames > 0 {
		a.ui.Line("%s: put %s in %s", play.File, framesText(played.Frames, played.Channels), roughTime(played.Took))
	}
	if played.Others > 0 {
		a.ui.Note("%s of the file are left out: they are no Ach channels", countText(played.Others, "topic"))
	}
	if played.Unparsed > 0 {
		a.ui.Note("%s left out: their time stamps cannot be shifted to the present", countText(played.Unparsed, "frame"))
	}
	if err != nil {
		return a.playError(play.File, err)
	}
	if !played.Complete {
		a.ui.Note("%s was cut short; this is what is whole", play.File)
	}
	if played.Late > lateNote {
		a.ui.Note("some frames were put late, by %s at most: this host was busy", unit.Time(played.Late.Round(time.Millisecond)))
	}
	return nil
}

// playError adds a fix to an error of play.
func (a *app) playError(file string, err error) error {
	where, named := errors.AsType[*recording.ChannelError](err)
	switch {
	case errors.Is(err, recording.ErrNothing):
		return ui.NotFound(err, "see what it has: achbridge rec info "+file)
	case errors.Is(err, localach.ErrName):
		return ui.Usage(err, "")
	case !named:
		return fileError(file, err)
	case errors.Is(err, recording.ErrMirror):
		return ui.Failure(err, fmt.Sprintf("put the frames under another name: --remap %s=NAME; or remove what is left of the mirror: achbridge channel rm %s", where.Topic.Channel, where.Channel))
	case errors.Is(err, recording.ErrSmall), errors.Is(err, localach.ErrTooLarge):
		return ui.Failure(err, fmt.Sprintf("end the programs that use it, then make it larger: achbridge channel create %s --replace --frames %d --size %d; or put the frames under another name: --remap %s=NAME",
			where.Channel, where.Topic.FrameCount, max(where.Topic.FrameSize, where.Size), where.Topic.Channel))
	}
	return a.ChannelError(where.Channel, err)
}

// fileError adds a fix to an error of reading a recording.
func fileError(file string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ui.NotFound(fmt.Errorf("%s: no such file", file), "")
	case errors.Is(err, recording.ErrFormat):
		return ui.Failure(err, "achbridge rec record makes such files")
	}
	return ui.Failure(err, "")
}
