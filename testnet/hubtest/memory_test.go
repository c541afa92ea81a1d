package hubtest

import (
	"testing"
	"testing/synctest"
	"time"

	"achbridge/testnet"
)

const maxFrame = 1 << 20

// memory returns a lab with the hub in memory.
func memory(p testnet.Params) *Lab {
	hub := testnet.NewHub(maxFrame)
	return &Lab{
		Host: func(name string) Hub { return Adapt(hub.Host(name, p, p)) },
		Cut:  hub.Cut, Restore: hub.Restore,
		MaxFrame: maxFrame, TooLarge: testnet.ErrHubTooLarge, Away: testnet.ErrHubAway,
	}
}

func TestMemoryHubContract(t *testing.T) {
	for name, p := range map[string]testnet.Params{
		"at once":   {},
		"10 ms":     {Delay: 10 * time.Millisecond},
		"10 Mbit/s": {Delay: 10 * time.Millisecond, Rate: 10e6},
	} {
		for _, s := range Contract {
			t.Run(s.Name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s.Run(t, memory(p))
				})
			})
		}
	}
}
