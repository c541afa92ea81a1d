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
		Use:         "doctor",
		Short:       "Check this host: network, memory, clock, key, C libraries",
		Example:     examples("achbridge doctor", "achbridge doctor -c new.yaml"),
		Annotations: docs("docs/troubleshooting.md"),
		Args:        takes(),
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
	configFlag(cmd, &file, "check against configuration `FILE` (default: that of run)")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}
