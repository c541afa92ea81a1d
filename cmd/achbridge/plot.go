package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/layout"
	"achbridge/cmd/achbridge/plot"
	"achbridge/cmd/achbridge/ui"
	"achbridge/cmd/achbridge/values"
	"achbridge/cmd/achbridge/view"
)

func plotCommand(a *app) *cobra.Command {
	p := plotting{app: a}
	cmd := &cobra.Command{
		Use:         "plot HOST/CHANNEL|NAME FIELD...",
		Short:       "Plot fields of a channel's frames over time",
		Example:     examples("achbridge plot krang/imu gyro.z acc", "achbridge plot imu gyro.z --for 5s > imu.txt"),
		Annotations: docs("docs/types.md"),
		Args:        takes("HOST/CHANNEL|NAME", "FIELD..."),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case p.window < time.Second || p.window > time.Hour:
				return ui.Usage(fmt.Errorf("--window %v: want 1s to 1h", p.window), "")
			case cmd.Flags().Changed("for") && p.length <= 0:
				return ui.Usage(fmt.Errorf("--for %v: want a time above zero, as in 5s", p.length), "")
			}
			return nil
		},
		ValidArgsFunction: a.anyNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.channel, p.fields = args[0], args[1:]
			p.plot = plot.New(p.channel, p.window)
			return p.run(cmd.Context())
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&p.window, "window", 10*time.Second, "plot the last `TIME`")
	cmd.Flags().DurationVar(&p.length, "for", 0, "print one plot after `TIME` (default: plot live)")
	p.of.defineType(cmd)
	a.controlFlag(cmd)
	return cmd
}

// plotting holds the arguments and flags of plot, and the plot that it draws.
type plotting struct {
	*app
	of             valueFlags
	window, length time.Duration
	channel        string
	fields         []string
	plot           *plot.Plot
}

func (p *plotting) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, ok := p.ui.Out.(*os.File)
	live := ok && ui.IsTerminal(out) && p.length == 0 && p.Env("TERM") != "dumb"
	screen := plot.Screen{Width: ui.UsualWidth, Height: ui.UsualHeight, Color: p.ui.Color, Blocks: ui.IsUTF8(p.Env)}
	if ok && ui.IsTerminal(out) {
		screen.Width, screen.Height = ui.ScreenSize(out)
	}
	reading := ctx
	if !live {
		end, stop := context.WithTimeout(ctx, cmp.Or(p.length, p.window))
		defer stop()
		reading = end
	}
	read := make(chan error, 1)
	go func() {
		read <- p.read(reading)
		cancel()
	}()
	if live {
		err := plot.Watch(ctx, out, p.in, p.plot, screen)
		cancel()
		return errors.Join(<-read, err)
	}
	if err := <-read; err != nil {
		return err
	}
	if !p.plot.Began() {
		return ui.NotFound(fmt.Errorf("channel %s: no frame", p.channel), "is its writer running?")
	}
	return p.ui.Line("%s", p.plot.Page(time.Now(), screen))
}

// read adds the frames of the channel to the plot until ctx ends.
func (p *plotting) read(ctx context.Context) error {
	return p.Follow(ctx, p.daemon(), p.channel, func(l view.View) error {
		kind, _, err := p.LayoutOf(p.of.file, l)
		if err == nil && kind == nil {
			err = noLayout(l)
		}
		if err != nil {
			return err
		}
		return p.WithLater(p.of.file, l, kind, func(later *view.Later) error { return p.frames(l, kind, later) })
	})
}

// frames adds the frames of an open channel to the plot, until l.Ctx ends. kind is the layout until later returns another one.
func (p *plotting) frames(l view.View, kind *layout.Layout, later *view.Later) error {
	f := view.NewFollower(l.Channel)
	return f.Each(l.Ctx, f.Newest, func(frame []byte) error {
		kind = cmp.Or(later.Take(), kind)
		return p.add(kind, frame)
	})
}

func (p *plotting) add(kind *layout.Layout, frame []byte) error {
	if _, err := kind.Decode(frame); err != nil {
		p.plot.Unfit(err)
		return nil
	}
	numbers, err := values.Numbers(kind, frame, p.fields)
	if err != nil {
		return err
	}
	return p.plot.Add(time.Now(), numbers)
}
