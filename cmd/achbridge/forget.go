package main

import (
	"strings"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/api"
)

func forgetCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "forget HOST",
		Short:       "Remove the mirrors of a host that is gone for good",
		Example:     examples("achbridge forget krang", "achbridge forget krang --json"),
		Annotations: docs("docs/configuration.md"),
		Args:        takes("HOST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var r api.ForgetReply
			if err := a.daemon().Post(cmd.Context(), "/v1/forget", api.ForgetRequest{Host: args[0]}, &r); err != nil {
				return err
			}
			return show(a, r, func(r api.ForgetReply) error {
				if len(r.Removed) == 0 {
					return a.ui.Line("%s is forgotten; it had no mirrors", args[0])
				}
				return a.ui.Line("%s is forgotten; removed %s", args[0], strings.Join(r.Removed, ", "))
			})
		},
	}
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}
