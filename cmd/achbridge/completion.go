package main

import (
	"github.com/spf13/cobra"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
)

// controlFlag adds --control to a command that talks to the daemon.
func (a *app) controlFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.control, "control", "", "connect to the daemon's socket `PATH` (default: that of run)")
	_ = cmd.MarkFlagFilename("control")
}

// configFlag adds --config to a command that reads a configuration.
func configFlag(cmd *cobra.Command, file *string, usage string) {
	cmd.Flags().StringVarP(file, "config", "c", "", usage)
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
}

// daemon returns a client of the daemon that --control names.
func (a *app) daemon() *api.Client { return a.Client(a.control) }

// jsonFlag adds --json to cmd.
func (a *app) jsonFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&a.asJSON, "json", "j", false, "print JSON instead of text")
}

// anyNames completes HOST/CHANNEL and the names of this host's channels.
func (a *app) anyNames(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	remote, _ := a.remoteNames(cmd, args, typed)
	local, directive := a.channelNames(cmd, args, typed)
	return append(remote, local...), directive
}

// remoteNames completes HOST/CHANNEL with the channels that the daemon knows.
func (a *app) remoteNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		var list []status.RemoteChannel
		_, _ = a.daemon().Get(cmd.Context(), "/v1/channels", &list)
		for _, c := range list {
			names = append(names, c.Host+"/"+c.Channel)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
