package main

import (
	"errors"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/daemon"
	"achbridge/cmd/achbridge/doctor"
	"achbridge/cmd/achbridge/ui"
)

func doctorCommand(a *app) *cobra.Command {
	var control, file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether this host is fit",
		Long: `Look this host over for what keeps channels from being carried: multicast, ports,
buffers, shared memory and the channels in it, the clock, the C libraries of the
processes that share a channel, the paths to the peers of a running daemon, the
key, who runs the daemon. Each check is one line, ok, warning or failure, with its
cure. Nothing is changed; a question goes out by multicast.

Run it as the daemon's user or as root: others cannot look into all processes.
It exits with 1 when a check fails.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			h := doctor.Host{Places: a.Places, Dir: a.dir(), Client: a.client, TryPorts: daemon.TryPorts}
			report, err := doctor.Examine(cmd.Context(), h, control, file)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.ui.JSON(report)
			} else {
				err = report.Show(a.ui)
			}
			if err == nil && !report.Fit {
				err = ui.Failure(errors.New("this host is not fit"), "")
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "look at the host by this configuration `FILE`")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	jsonFlag(cmd, &asJSON)
	controlFlag(cmd, &control)
	return cmd
}
