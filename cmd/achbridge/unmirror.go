package main

import (
	"github.com/spf13/cobra"

	"achbridge/bridge"
)

func unmirrorCommand(a *app) *cobra.Command {
	var path string
	var remove bool
	cmd := &cobra.Command{
		Use:   "unmirror HOST/CHANNEL",
		Short: "Stop mirroring a channel",
		Long: `Tell the running daemon to stop a mirror, named as it was asked for (a pattern
with the same pattern). The mirror's channel stays, with its last frames, unless
--rm removes it.`,
		Args: takes("HOST/CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			wish, err := bridge.ParseMirror(args[0])
			if err != nil {
				return misused(err, "")
			}
			request := unmirrorRequest{Host: wish.Host, Channel: wish.Channel, Remove: remove}
			return a.client(path).post(cmd.Context(), "/v1/unmirror", request, &struct{}{})
		},
	}
	cmd.Flags().BoolVar(&remove, "rm", false, "remove the mirror's channel too")
	controlFlag(cmd, &path)
	return cmd
}
