package main

import (
	"strings"

	"github.com/spf13/cobra"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

func pushCommand(a *app) *cobra.Command {
	var accept bool
	cmd := &cobra.Command{
		Use:   "push CHANNEL HOST[/NAME]",
		Short: "Have another host mirror a channel of this host",
		Long: `Tell the running daemon to offer a channel of this host to another host, which
mirrors it under the same name or as NAME. The other host refuses, unless its accept
rules (run --accept) allow that name. If a program over there has made a channel of
that name, its adopt list (run --adopt) must name it too. The other host need not be
there yet.

achd://HOST, or achd+udp://HOST, is a host that has achd alone; it needs the channel.

The options mean what they mean in achbridge mirror; deadline, on_stale, stamps and
meta are set by the accept rule of the other host. That rule overrides the options given here,
but it does not get more than --max-rate and --priority.
The same command with other options changes a push while it runs, without a gap.
Options that are not given go back to their defaults.

Commands and pushes for a host go only to the machine to which they went before. If
the host runs on another machine, because its disk was moved or copied, they wait
until you accept that machine with --accept-machine.

The daemon forgets the wish when it ends. To keep it, start the daemon with
achbridge run --push, or write it into the configuration file.`,
		Example: `  achbridge push goal krang                                  # where krang runs with --accept goal
  achbridge push goal krang/planner.goal                     # --accept planner.goal
  achbridge push camera krang --max-rate 5 --compress zstd   # --accept camera`,
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
			if err := a.daemon().Post(cmd.Context(), "/v1/push", api.Push{Push: wish, AcceptMachine: accept}, &pushed); err != nil {
				return err
			}
			text := wish.Channel + " is pushed to " + wish.Host
			if wish.As != "" {
				text += " as " + wish.As
			}
			state := strings.TrimSpace(pushed.State.String() + " " + diagnose.MarkOf(pushed.Unauthenticated))
			a.ui.Line("%s, %s", text, state)
			if pushed.State == status.PushWaiting {
				a.ui.Note("%s", pushed.Reason)
			}
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	addQoSFlags(cmd, rule.PushOptions())
	cmd.Flags().BoolVar(&accept, "accept-machine", false, "let commands and pushes go to the machine that the host runs on now")
	a.controlFlag(cmd)
	return cmd
}
