package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
)

func pushCommand(a *app) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "push CHANNEL HOST[/NAME]",
		Short: "Have another host mirror a channel of ours",
		Long: `Tell the running daemon to offer a channel of this host to another one, which
mirrors it under the same name or NAME. The other host refuses unless it was
started with --accept and a pattern that matches the name. A host that is not
there yet is waited for.

The options are those of achbridge mirror. The rule by which the other host accepts
the channel goes before them; --max-rate and --priority bound it all the same.
The same call with other options changes a push while it runs, without a gap; what
is not given goes back to its default.

The wish lasts as long as the daemon runs; to keep it, start the daemon with
achbridge run --push, or put it into its configuration file.`,
		Example:           "  achbridge push goal krang\n  achbridge push goal krang/planner.goal\n  achbridge push camera krang --max-rate 5 --compress zstd",
		Args:              takes("CHANNEL", "HOST[/NAME]"),
		ValidArgsFunction: a.channelNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			wish, err := rule.ParsePush(args[0], args[1])
			if err == nil {
				err = setQoS(&wish.QoS, cmd.Flags())
			}
			if err == nil {
				err = wish.QoS.Check()
			}
			if err != nil {
				return ui.Usage(err, "")
			}
			var pushed status.Push
			if err := a.client(path).Post(cmd.Context(), "/v1/push", wish, &pushed); err != nil {
				return err
			}
			if pushed.State == status.PushWaiting {
				a.ui.Note("%s: %s", wish.Host, cmp.Or(pushed.Reason, "not there yet; the push begins when it appears"))
			}
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	addQoSFlags(cmd, rule.PushOptions())
	controlFlag(cmd, &path)
	return cmd
}
