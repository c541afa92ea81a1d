package main

import "github.com/spf13/cobra"

func channelRmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Remove channels",
		Long: `Remove channels. A program that has one of them open keeps its handle, but gets no
more frames.`,
		Args:              takes("NAME..."),
		ValidArgsFunction: a.channelNames,
		RunE: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if err := a.dir().Unlink(name); err != nil {
					return a.channelError(name, err)
				}
			}
			return nil
		},
	}
}
