//go:build !nohub

package daemon

import (
	"context"
	"errors"
	"fmt"
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

// hubWay is this host's client of a hub, as the node needs it.
type hubWay struct{ *hub.Client }

// openHub reads the credentials that the configuration names; nil: it names none.
func openHub(c *config.Config, log *slog.Logger) (wayOut, error) {
	if c.HubCreds == "" {
		return nil, nil
	}
	client, err := readHub(c, log)
	if err != nil {
		return nil, ui.Usage(c.CredentialsProblem(err), "")
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

// Dial begins a byte stream to a host.
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

// Channel is the place of a channel's newest frame at the hub.
func (h hubWay) Channel(host, channel string) hubway.Channel {
	return hubChannel{h.Client.Channel(host, channel)}
}

// report tells how it stands with the hub.
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

// hubCause is why there is no connection, in a word.
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
