package hub

import (
	"context"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"achbridge/bridge/hub"
	"achbridge/testnet/await"
	"achbridge/testnet/hubtest"
)

// client connects a host to the hub until the test ends, and waits until other hosts can reach it.
func (w *world) client(host string) *hub.Client {
	w.Helper()
	c, err := hub.New(hub.Config{Credentials: w.credentials(host), Hub: "tls://" + w.s.Addr()})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	w.Cleanup(func() { cancel(); <-done })
	await.True(w, "the hub knows what is for it", func() bool {
		z, err := w.s.nats.Subsz(&server.SubszOptions{Subscriptions: true, Test: "ach.x.to." + host + ".x"})
		return err == nil && len(z.Subs) > 0 && c.State().Connected
	})
	return c
}

func TestHubContract(t *testing.T) {
	for _, s := range hubtest.Contract {
		if s.Cuts {
			continue // package bridge/hub runs it
		}
		t.Run(s.Name, func(t *testing.T) {
			w := newWorld(t, "robot", "pc", "recorder", "arm")
			s.Run(t, &hubtest.Lab{
				Host:     func(name string) hubtest.Hub { return hubtest.Adapt(w.client(name)) },
				MaxFrame: hub.MaxPayload, TooLarge: hub.ErrTooLarge, Away: hub.ErrNotConnected,
			})
		})
	}
}
