//go:build nohub

package daemon

import (
	"errors"
	"log/slog"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

// openHub stands for the hub where a program was built without it.
func openHub(c *config.Config, _ *slog.Logger) (wayOut, error) {
	if c.HubCreds == "" {
		return nil, nil
	}
	return nil, ui.Usage(c.CredentialsProblem(errors.New("this program was built without the hub, with the tag nohub: take one that was built with it")), "")
}
