//go:build nohub

package daemon

import (
	"errors"
	"log/slog"

	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

// openHub replaces the function of hub.go in builds without the hub. It returns an error if
// the configuration names credentials.
func openHub(c *config.Config, _ *slog.Logger) (wayOut, error) {
	if c.HubCreds == "" {
		return nil, nil
	}
	return nil, ui.Usage(c.CredentialsProblem(errors.New("this program was built without the hub, with the tag nohub: take one that was built with it")), "")
}
