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

// newestValues returns a function that decodes the newest frame of a local channel into lines of text. The function returns
// nil if no layout is known or the channel has no frame.
func (a *app) newestValues() func(context.Context, string) []string {
	quiet := a.Host // top fills the terminal, so notes must not be printed
	quiet.Note = func(string, ...any) {}
	return func(ctx context.Context, channel string) []string {
		ch, err := quiet.Open(channel)
		if err != nil {
			return nil
		}
		defer ch.Close()
		kind, _, err := quiet.LayoutOf("", view.View{Channel: ch, Of: channel, Asks: a.daemon(), Ctx: ctx})
		if err != nil || kind == nil {
			return nil
		}
		f := view.NewFollower(ch)
		frame, err := f.Newest(0)
		if err != nil {
			return nil
		}
		return values.Page(kind, frame)
	}
}
