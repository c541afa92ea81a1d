package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/via"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/demo"
)

func demoCommand() *cobra.Command {
	var length time.Duration
	var asJSON bool
	over := via.QUIC
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Try the bridge on this machine alone: no root, no key, no second host",
		Long: `Create three channels of a robot in this machine's shared memory, run the node of a
robot and the node of a PC over loopback with a temporary key, and measure how old
the newest frame in each mirror is, with readers as robot programs have them.
Everything that was created is removed at the end, also on Ctrl-C.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			out := cmd.OutOrStdout()
			report, err := demo.Run(ctx, demo.Config{Length: length, Over: over, Out: out, Quiet: asJSON})
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(out).Encode(report)
			} else {
				report.Show(out)
			}
			if err == nil && !report.OK {
				err = fmt.Errorf("demo: a mirror missed more than one frame in ten, or delivered an older frame after a newer one")
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&length, "for", 10*time.Second, "run for this `TIME`")
	cmd.Flags().Var(config.TransportFlag(&over), "transport", "join them over quic, sctp or auto")
	cmd.Flags().BoolVarP(&asJSON, "json", "j", false, "print one JSON object at the end")
	return cmd
}
