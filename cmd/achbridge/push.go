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
		Use:               "push CHANNEL HOST[/NAME]",
		Short:             "Offer a channel of this host to another host",
		Example:           examples("achbridge push goal krang", "achbridge push camera krang/pc.camera --max-rate 5"),
		Annotations:       docs("docs/qos.md"),
		Args:              takes("CHANNEL", "HOST[/NAME]"),
		ValidArgsFunction: a.channelNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := rule.ParsePush(args[0], args[1])
			if err == nil {
				err = setQoS(&request.QoS, cmd.Flags())
			}
			if err == nil {
				err = request.QoS.Check()
			}
			if err != nil {
				return ui.Usage(err, "")
			}
			var pushed status.Push
			if err := a.daemon().Post(cmd.Context(), "/v1/push", api.Push{Push: request, AcceptMachine: accept}, &pushed); err != nil {
				return err
			}
			text := request.Channel + " is pushed to " + request.Host
			if request.As != "" {
				text += " as " + request.As
			}
			state := strings.TrimSpace(pushed.State.String() + " " + diagnose.MarkOf(pushed.Unauthenticated))
			a.ui.Line("%s, %s", text, state)
			if pushed.State != status.PushAccepted {
				a.ui.Note("%s", pushed.Reason)
			}
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	addQoSFlags(cmd, rule.PushOptions())
	cmd.Flags().BoolVar(&accept, "accept-machine", false, "accept that HOST now runs on another machine")
	a.controlFlag(cmd)
	return cmd
}
