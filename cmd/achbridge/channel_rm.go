package main

import "github.com/spf13/cobra"

func channelRmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Remove channels",
		Long: `Remove channels. Programs that have one open keep their handle and hear nothing
more on it.`,
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
