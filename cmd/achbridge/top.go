package main

import (
	"context"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/top"
	"achbridge/cmd/achbridge/values"
	"achbridge/cmd/achbridge/view"
)

func topCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "top",
		Short:       "Show all channels live, the worst first",
		Example:     examples("achbridge top", "achbridge top --control /run/achbridge/control.sock"),
		Annotations: docs("docs/monitoring.md"),
		Args:        takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return top.Watch(cmd.Context(), top.Config{Terminal: a.ui, Client: a.daemon(), In: a.in, Env: a.Env, Values: a.newestValues()})
		},
	}
	a.controlFlag(cmd)
	return cmd
}

// newestValues returns a function that returns the size of the newest frame of a local channel, 0 if the channel has no
// frame, and its values as lines of text, nil if no layout is known.
func (a *app) newestValues() func(context.Context, string) (int, []string) {
	quiet := a.Host // top fills the terminal, so notes must not be printed
	quiet.Note = func(string, ...any) {}
	return func(ctx context.Context, channel string) (int, []string) {
		ch, err := quiet.Open(channel)
		if err != nil {
			return 0, nil
		}
		defer ch.Close()
		f := view.NewFollower(ch)
		frame, err := f.Newest(0)
		if err != nil {
			return 0, nil
		}
		kind, _, err := quiet.LayoutOf("", view.View{Channel: ch, Of: channel, Asks: a.daemon(), Ctx: ctx})
		if err != nil || kind == nil {
			return len(frame), nil
		}
		return len(frame), values.Page(kind, frame)
	}
}
