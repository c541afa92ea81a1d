package hub

import (
	"testing"

	"achbridge/testnet/await"
	"achbridge/testnet/hubtest"
	"achbridge/testnet/need"
)

// contractLab returns a hub on this machine, with a proxy for each host.
func contractLab(h *testHub) *hubtest.Lab {
	clients, proxies := map[string]*Client{}, map[string]*proxy{}
	return &hubtest.Lab{
		Host: func(name string) hubtest.Hub {
			proxies[name] = h.proxy()
			clients[name] = h.connectedClient(name, proxies[name].address())
			return hubtest.Adapt(clients[name])
		},
		Cut: func(name string) {
			proxies[name].shut()
			await.True(h.t, "cut off", func() bool { return !clients[name].State().Connected })
		},
		Restore: func(name string) {
			proxies[name].reopen()
			h.connectedAgain(clients[name])
		},
		MaxFrame: int(h.options.MaxPayload),
		TooLarge: ErrTooLarge,
		Away:     ErrNotConnected,
	}
}

var contractHosts = []string{"robot", "pc", "recorder", "arm"}

func TestEmbeddedServerKeepsContract(t *testing.T) {
	for _, s := range hubtest.Contract {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, contractHosts...)
			h.options.MaxPayload = 1 << 20
			h.start()
			s.Run(t, contractLab(h))
		})
	}
}

func TestDebianServerKeepsContract(t *testing.T) {
	need.Long(t)
	for _, s := range hubtest.Contract {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			h := startDebian(t, true, contractHosts...)
			s.Run(t, contractLab(h))
		})
	}
}
