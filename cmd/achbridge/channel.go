package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/doctor"
	"achbridge/cmd/achbridge/publish"
	"achbridge/cmd/achbridge/ui"
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
		channelPutCommand(a), channelCatCommand(a), former(channelHzCommand(a), "rate"),
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

func channelRmCommand(a *app) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:               "rm NAME...",
		Short:             "Remove channels that no program has open",
		Example:           examples("achbridge ch rm imu", "achbridge ch rm imu joints --force"),
		Annotations:       docs("docs/configuration.md"),
		Args:              takes("NAME..."),
		ValidArgsFunction: a.channelNames,
		RunE: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if !force {
					if err := a.refuseInUse(name, "achbridge channel rm "+name); err != nil {
						return err
					}
				}
				if err := a.Dir.Unlink(name); err != nil {
					return a.ChannelError(name, err)
				}
				publish.Forget(a.Dir, name)
				a.ui.Line("%s is removed", name)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "remove channels even if programs have them open")
	return cmd
}

// refuseInUse returns an error that names the programs, other than achbridge, that have channel name open. next is the
// command that the error recommends once these programs have ended. Processes that this user may not examine do not count;
// a note mentions them.
func (a *app) refuseInUse(name, next string) error {
	channels, hidden := doctor.SharersOf(a.Dir)
	var programs []string
	for _, s := range channels[name] {
		if !s.IsAchbridge() {
			programs = append(programs, s.Owned())
		}
	}
	if len(programs) > 0 {
		return ui.Failure(fmt.Errorf("channel %s: in use by %s", name, ui.AndList(programs)), "end these programs, then "+next)
	}
	if hidden > 0 {
		a.ui.Note("%s: this user may not examine all processes (%d are left): one of them may use it", name, hidden)
	}
	return nil
}
