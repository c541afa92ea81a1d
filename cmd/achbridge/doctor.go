package main

import (
	"errors"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/daemon"
	"achbridge/cmd/achbridge/doctor"
	"achbridge/cmd/achbridge/ui"
)

func doctorCommand(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this host can carry channels",
		Long: `Check this host for what keeps channels from being carried: multicast, ports, socket
buffers, shared memory and the channels in it, the clock, the C libraries of processes
that share a channel, the paths to the peers of a running daemon, the key, the
daemon's user. Each check prints one line, ok, warning or failure, with a cure.
Nothing is changed. One question is sent by multicast.

Run it as the daemon's user or as root: other users cannot look into all processes.
The exit code is 1 when a check fails.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			h := doctor.Host{Host: a.Host, TryPorts: daemon.TryPorts}
			report, err := doctor.Examine(cmd.Context(), h, a.control, file)
			if err != nil {
				return err
			}
			if a.asJSON {
				err = a.ui.JSON(report)
			} else {
				err = report.Show(a.ui)
			}
			if err == nil && !report.Fit {
				err = ui.Failure(errors.New("a check failed"), "")
			}
			return err
		},
	}
	configFlag(cmd, &file, "look at the host by this configuration `FILE`")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}
