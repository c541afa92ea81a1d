package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/demo"
)

func demoCommand() *cobra.Command {
	var length time.Duration
	var asJSON bool
	over := config.TransportQUIC
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the bridge at work on this machine alone: no root, no key, no second host",
		Long: `demo makes three channels of a robot in this machine's shared memory, runs a
robot's node and a PC's node over loopback with a throw-away key, and
measures how old the newest frame in each mirror is, by a reader of its own.
It removes everything it made, also on Ctrl-C.`,
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
				err = fmt.Errorf("demo: a mirror missed more than one frame in ten, or went back to an older one")
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&length, "for", 10*time.Second, "run for this `TIME`")
	cmd.Flags().Var(&over, "transport", "join them over quic, sctp or auto")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object at the end")
	return cmd
}
