package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func addrCommand() *cobra.Command {
	var six bool
	cmd := &cobra.Command{
		Use:     "addr HOST",
		Short:   "Print the address of a host",
		Long:    "Addr prints a host's IPv4 address. On the hosts their names resolve, too.",
		Example: "  lab addr robot\n  lab addr --ipv6 robot",
		Args:    atLeast(1, "HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := ask(request{Command: "addr", Target: args[0]})
			if err != nil {
				return err
			}
			if six {
				r.Addr = r.Addr6
			}
			fmt.Println(r.Addr)
			return nil
		},
	}
	cmd.Flags().BoolVarP(&six, "ipv6", "6", false, "print its IPv6 address")
	return cmd
}
