package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/mirror"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/view"
	"achbridge/localach"
)

func channelPutCommand(a *app) *cobra.Command {
	var p put
	cmd := &cobra.Command{
		Use:         "put NAME [TEXT]",
		Short:       "Put a frame into a channel, once or repeatedly",
		Example:     examples("achbridge ch put imu hello", "achbridge ch put imu --hex '00 11 22 ff' --rate 100"),
		Annotations: docs("README.md"),
		Args:        takes("NAME", "[TEXT]"),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			return p.check(cmd, args)
		},
		ValidArgsFunction: a.channelNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			ch, err := a.OpenToWrite(args[0])
			if err != nil {
				return err
			}
			defer ch.Close()
			if err := ch.Geometry().Check(); err != nil {
				return a.ChannelError(args[0], fmt.Errorf("channel %s: %w: nobody could read the frame", args[0], err))
			}
			if err := p.mirror(a, ch); err != nil {
				return err
			}
			frame, err := p.frame(a)
			if err != nil {
				return err
			}
			if err := p.run(cmd.Context(), ch, frame); err != nil {
				return a.putError(ch, len(frame), err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&p.hex, "hex", false, "read the input as hexadecimal")
	cmd.Flags().StringVar(&p.file, "file", "", "read the frame from `FILE` (default: TEXT or stdin)")
	cmd.Flags().Float64VarP(&p.rate, "rate", "r", 0, "repeat the frame `HZ` times a second (default: put it once)")
	cmd.Flags().IntVarP(&p.count, "count", "n", 0, "with --rate, stop after `N` frames (default: no limit)")
	cmd.Flags().BoolVar(&p.force, "force", false, "put the frame even into a mirror")
	return cmd
}

// put holds the arguments and flags of `channel put`.
type put struct {
	text  *string
	hex   bool
	file  string
	rate  float64
	count int
	force bool
}

// mirror returns an error if ch is a mirror or a metadata channel. With --force it only prints a warning.
func (p *put) mirror(a *app, ch *localach.Channel) error {
	tag := ch.Tag()
	if tag == (localach.Tag{}) {
		return nil
	}
	what := "channel " + ch.Name() + " is a mirror"
	if of, ok := mirror.MetaOf(ch.Name(), tag); ok {
		what = "channel " + ch.Name() + " describes the mirror " + of
	}
	if !p.force {
		return ui.Failure(errors.New(what+": what is put here does not reach the host that it is of, and mixes with the frames of that"), "to do it all the same: --force")
	}
	a.ui.Note("%s: what is put here mixes with the frames of the host that it is of", what)
	return nil
}

func (p *put) check(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		p.text = &args[1]
	}
	switch {
	case p.text != nil && p.file != "":
		return ui.Usage(errors.New("channel put: the frame is given twice, as TEXT and as --file"), "")
	case cmd.Flags().Changed("rate") && !(p.rate > 0 && p.rate <= 100_000):
		return ui.Usage(fmt.Errorf("--rate %v: want more than 0 and at most 100000 a second", p.rate), "")
	case cmd.Flags().Changed("count") && p.count < 1:
		return ui.Usage(fmt.Errorf("--count %d: want at least 1", p.count), "")
	case p.count > 0 && p.rate == 0:
		return ui.Usage(errors.New("--count needs --rate"), "--rate 10 puts ten frames a second")
	}
	return nil
}

// maxInput limits the size of the input, so that an endless stream does not exhaust
// memory. No channel has frames that large.
const maxInput = 1 << 30

// frame reads the frame from TEXT, --file or stdin.
func (p *put) frame(a *app) ([]byte, error) {
	input, name := a.in, "stdin"
	switch {
	case p.text != nil:
		input, name = strings.NewReader(*p.text), "TEXT"
	case p.file != "":
		f, err := os.Open(p.file)
		if err != nil {
			return nil, ui.Failure(err, "")
		}
		defer f.Close()
		input, name = f, p.file
	default:
		if f, ok := a.in.(*os.File); ok && ui.IsTerminal(f) {
			a.ui.Note("type the frame, end it with Ctrl-D")
		}
	}
	frame, err := io.ReadAll(io.LimitReader(input, maxInput))
	if err != nil {
		return nil, ui.Failure(fmt.Errorf("%s: %w", name, err), "")
	}
	if p.hex {
		frame, err = hex.DecodeString(strings.Join(strings.Fields(string(frame)), ""))
		if err != nil {
			return nil, ui.Usage(fmt.Errorf("%s: not hexadecimal: want pairs of 0-9 and a-f, as in '00 ff'", name), "")
		}
	}
	if len(frame) == 0 {
		return nil, ui.Usage(fmt.Errorf("%s: empty, and Ach has no empty frames", name), "")
	}
	return frame, nil
}

// run puts frame once or, with --rate, repeatedly until --count is reached or ctx ends.
// The n-th repetition is due n periods after the first put, however long other puts take.
func (p *put) run(ctx context.Context, ch *localach.Channel, frame []byte) error {
	w := ch.Writer()
	if p.rate == 0 {
		_, err := w.Put(frame)
		return errors.Join(err, w.Close())
	}
	start := time.Now()
	seen := start
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return w.Close()
		case <-timer.C:
		}
		if time.Since(seen) > view.Patience {
			seen = time.Now()
			if err := ch.Check(); err != nil && !errors.Is(err, localach.ErrBusy) { // no reader would see the frame
				return errors.Join(err, w.Close())
			}
		}
		if _, err := w.Put(frame); err != nil {
			return errors.Join(err, w.Close())
		}
		if n == p.count {
			return w.Close()
		}
		due := start.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
		timer.Reset(time.Until(due))
	}
}

// putError adds a fix to an error of a put.
func (a *app) putError(ch *localach.Channel, n int, err error) error {
	if errors.Is(err, localach.ErrTooLarge) {
		return ui.Failure(err, fmt.Sprintf("end the programs that use it, then make a larger one: achbridge channel create %s --replace --size %d", ch.Name(), n))
	}
	return a.ChannelError(ch.Name(), err)
}
