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
		Use:   "echo HOST/CHANNEL|NAME",
		Short: "Print frames as they come",
		Long: `Print the newest frame of a channel and every frame after it: its values, a line for
each field, if --type or types: of the configuration names a layout, or else the
channel's origin tells one, and otherwise its bytes, in hexadecimal and as text. A frame
that does not fit the layout is shown as bytes. --field prints only some fields, and whole arrays; --diff only what changed.
--hex prints each frame as one line of hexadecimal, which channel put --hex reads.
--raw prints the bytes alone, with nothing between frames. --once prints one frame, and
waits for it if there is none yet.` + remoteHelp,
		Example: example("echo", "krang/imu", "krang/imu --field gyro --csv > gyro.csv", "krang/imu --once --raw > imu.bin"),
		Args:    takes("HOST/CHANNEL|NAME"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.oneForm(raw); err != nil {
				return err
			}
			if once && cmd.Flags().Changed("count") {
				return ui.Usage(errors.New("--once and --count: one of them"), "")
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
	cmd.Flags().BoolVar(&c.hex, "hex", false, "one line of hexadecimal a frame")
	cmd.Flags().BoolVar(&raw, "raw", false, "the bytes alone")
	c.define(cmd)
	cmd.Flags().BoolVarP(&once, "once", "1", false, "one frame")
	cmd.Flags().IntVarP(&c.count, "count", "n", 0, "stop after `N` frames")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 0, "give up after this `TIME` without a frame")
	a.controlFlag(cmd)
	return cmd
}
