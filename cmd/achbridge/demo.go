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
		Use:         "demo",
		Short:       "Mirror three channels on this machine and measure their age",
		Example:     examples("achbridge demo", "achbridge demo --for 30s --transport sctp"),
		Annotations: docs("README.md"),
		Args:        cobra.NoArgs,
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
	cmd.Flags().DurationVar(&length, "for", 10*time.Second, "run for `TIME`")
	cmd.Flags().Var(config.TransportFlag(&over), "transport", "connect over quic, sctp or auto")
	cmd.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON at the end instead of text")
	return cmd
}
