//go:build !nohub

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"time"

	"achbridge/bridge/hub"
	"achbridge/bridge/hubway"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/ui"
)

// hubWay adapts a hub.Client to the interface that the node needs.
type hubWay struct{ *hub.Client }

// openHub returns a hub client with the credentials that the configuration names. It
// returns nil if the configuration names none.
func openHub(c *config.Config, log *slog.Logger) (wayOut, error) {
	if c.HubCreds == "" {
		return nil, nil
	}
	client, err := readHub(c, log)
	if err != nil {
		problem := error(c.CredentialsProblem(err))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, ui.NotFound(problem, "")
		}
		return nil, ui.Usage(problem, "")
	}
	return hubWay{client}, nil
}

func readHub(c *config.Config, log *slog.Logger) (*hub.Client, error) {
	creds, err := hub.ReadCredentials(c.HubCreds)
	if err != nil {
		return nil, err
	}
	if creds.Host != c.Name {
		return nil, fmt.Errorf("credentials %s: they are of host %s at %s, and this host is called %s: start it with --name %s, or have achbridge hub add %s write others",
			c.HubCreds, creds.Host, creds.Hub, c.Name, creds.Host, c.Name)
	}
	return hub.New(hub.Config{Credentials: creds, Hub: c.Hub, Log: log})
}

// Dial opens a byte stream to a host through the hub.
func (h hubWay) Dial(ctx context.Context, host string) (net.Conn, error) {
	conn, err := h.Client.Dial(ctx, host)
	if errors.Is(err, hub.ErrNotConnected) {
		err = fmt.Errorf("%w%.0w", err, hubway.ErrAway)
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// Channel returns a handle for a channel's newest frame at the hub.
func (h hubWay) Channel(host, channel string) hubway.Channel {
	return hubChannel{h.Client.Channel(host, channel)}
}

// report returns the state of the connection to the hub.
func (h hubWay) report() *api.Hub {
	s := h.State()
	r := &api.Hub{
		Address: s.Address, Connected: s.Connected, SinceS: time.Since(s.Since).Seconds(), RTTms: ui.Milliseconds(s.RoundTrip), SilentS: s.Silent.Seconds(),
		UnackedBytes: s.Unacked, MaxPayload: s.MaxPayload,
	}
	if s.Err != nil {
		r.Error, r.Cause = s.Err.Error(), hubCause(s.Err)
	}
	return r
}

// hubCause returns the status cause of a failed connection.
func hubCause(err error) status.Cause {
	switch {
	case errors.Is(err, hub.ErrRefused):
		return status.CauseKey
	case errors.Is(err, hub.ErrCertificate):
		return status.CauseCertificate
	}
	return status.CausePeerSilent
}

type hubChannel struct{ *hub.Channel }

func (c hubChannel) Put(ctx context.Context, b []byte) (acked <-chan error, err error) {
	acked, err = c.Channel.Put(ctx, b)
	if errors.Is(err, hub.ErrTooLarge) {
		err = fmt.Errorf("%w%.0w", err, hubway.ErrTooLarge)
	}
	return acked, err
}
