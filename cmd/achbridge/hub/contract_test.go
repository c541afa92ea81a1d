package hub

import (
	"context"
	"testing"

	"achbridge/bridge/hub"
	"achbridge/testnet/await"
	"achbridge/testnet/hubtest"
)

// client is a host at the hub until the test ends.
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
	await.True(w, "connected", func() bool { return c.State().Connected })
	return c
}

func TestHubKeepsTheContract(t *testing.T) {
	for _, s := range hubtest.Contract {
		t.Run(s.Name, func(t *testing.T) {
			w := newWorld(t, "robot", "pc", "recorder", "arm")
			s.Run(t, &hubtest.Lab{
				Host:     func(name string) hubtest.Hub { return hubtest.Adapt(w.client(name)) },
				MaxFrame: hub.MaxPayload, TooLarge: hub.ErrTooLarge, Away: hub.ErrNotConnected,
			})
		})
	}
}
