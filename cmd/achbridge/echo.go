package main

import (
	"errors"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/ui"
)

func echoCommand(a *app) *cobra.Command {
	c := cat{last: true, follow: true, dump: true}
	var raw, once bool
	cmd := &cobra.Command{
		Use:         "echo HOST/CHANNEL|NAME",
		Short:       "Print the newest frame of a channel and every later one",
		Example:     examples("achbridge echo krang/imu", "achbridge echo krang/imu --field gyro --csv > gyro.csv"),
		Annotations: docs("docs/types.md"),
		Args:        takes("HOST/CHANNEL|NAME"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.oneForm(raw); err != nil {
				return err
			}
			if once && cmd.Flags().Changed("count") {
				return ui.Usage(errors.New("--once and --count: choose one"), "")
			}
			c.dump = !raw && !c.hex
			c.values = c.dump
			err := c.check(cmd)
			if once {
				c.count = 1
			}
			return err
		},
		ValidArgsFunction: a.anyNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.cat(cmd.Context(), a.daemon(), args[0], &c)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&c.hex, "hex", false, "print each frame as a line of hexadecimal")
	cmd.Flags().BoolVar(&raw, "raw", false, "print only the bytes, without separators")
	c.define(cmd)
	cmd.Flags().BoolVarP(&once, "once", "1", false, "print one frame and exit")
	cmd.Flags().IntVarP(&c.count, "count", "n", 0, "stop after `N` frames (default: no limit)")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 0, "stop after `TIME` without a frame (default never)")
	a.controlFlag(cmd)
	return cmd
}
