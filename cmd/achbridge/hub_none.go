//go:build nohub

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"achbridge/cmd/achbridge/ui"
)

// hubCommand replaces the hub command in a program that was built without the hub.
func hubCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use:                "hub",
		Short:              "Run a hub (this program was built without it)",
		Example:            examples("achbridge hub", "achbridge hub --listen :443"),
		Annotations:        docs("docs/fleet.md"),
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return ui.Failure(errors.New("hub: this program was built without the hub, with the tag nohub"), "take one that was built with it: go build ./cmd/achbridge")
		},
	}
}
