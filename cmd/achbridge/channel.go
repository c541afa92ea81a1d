package main

import (
	"github.com/spf13/cobra"
)

func channelCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "channel",
		Aliases:     []string{"ch"},
		Short:       "Create, read and write channels of this host",
		Example:     examples("achbridge ch create imu --size 64", "achbridge ch put imu hello"),
		Annotations: docs("docs/configuration.md"),
	}
	cmd.AddCommand(
		channelCreateCommand(a), channelRmCommand(a), channelLsCommand(a), channelInfoCommand(a),
		channelPutCommand(a), channelCatCommand(a), channelHzCommand(a),
	)
	return needsCommand(cmd)
}

// channelNames completes the first argument with the names of this host's channels.
func (a *app) channelNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	infos, _ := a.Dir.List()
	names := make([]string, 0, len(infos))
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
