package main

import (
	"github.com/spf13/cobra"

	"achbridge/bridge/status"
)

// controlFlag gives a verb that talks to the daemon its --control.
func controlFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "control", "", "`PATH` of the daemon's control socket (default: where run puts it)")
	_ = cmd.MarkFlagFilename("control")
}

// anyNames completes HOST/CHANNEL and the names of this host's channels.
func (a *app) anyNames(control *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		remote, _ := a.remoteNames(control)(cmd, args, typed)
		local, directive := a.channelNames(cmd, args, typed)
		return append(remote, local...), directive
	}
}

// remoteNames completes HOST/CHANNEL from what the daemon knows.
func (a *app) remoteNames(control *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		if len(args) == 0 {
			var list []status.RemoteChannel
			_, _ = a.Client(*control).Get(cmd.Context(), "/v1/channels", &list)
			for _, c := range list {
				names = append(names, c.Host+"/"+c.Channel)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
