package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"achbridge/testnet/need"
)

// Delays like those in the papers reproduce the claims, and opposite delays do not.
func TestClaimsAreComparedByRatios(t *testing.T) {
	made := func(delay func(c setup) float64) (all []delays) {
		for turn := range 3 {
			for _, c := range setups() {
				all = append(all, delays{setup: c, Turn: turn, Typical: delay(c) * float64(turn+1)}) // the machine gets slower with each turn
			}
		}
		return all
	}
	papers := made(func(c setup) float64 { return 10 + 5*float64(c.Receivers-1) })
	opposite := made(func(c setup) float64 {
		switch {
		case c.Means != "ach":
			return 10
		case c.Receivers > 1:
			return 100 * float64(c.Receivers*c.Receivers*c.Receivers)
		}
		return float64(c.Rate) / 40
	})
	for _, c := range claims {
		if ratio, reproduced := c.compare(papers, 1000); !reproduced {
			t.Errorf("%s: got %v, not reproduced, by what the paper shows", c.says, ratio)
		}
		if ratio, reproduced := c.compare(opposite, 1000); reproduced {
			t.Errorf("%s: got %v, reproduced, by its opposite", c.says, ratio)
		}
	}
}

func TestIPCReportsUsageErrors(t *testing.T) {
	for _, args := range []string{"ipc --repeat 0", "ipc --for 1us", "ipc now"} {
		if err := run(strings.Fields(args), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "want at least") {
			t.Errorf("%s: got %v, want what is right", args, err)
		}
	}
}

// The test checks only that stamps arrive, since their delays depend on the machine.
func TestEverySetupCarriesStamps(t *testing.T) {
	need.Long(t)
	var out bytes.Buffer
	if err := run(strings.Fields("ipc --for 100ms --repeat 1 --json"), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var all []delays
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != len(setups()) {
		t.Errorf("got %d results, want one of each of %d courses", len(all), len(setups()))
	}
	for _, d := range all {
		if d.Count < d.Receivers*10 || d.Typical <= 0 || d.P99 < d.Typical || d.Max < d.P99 {
			t.Errorf("got %+v, want at least 10 messages at each receiver, and delays in order", d)
		}
	}
}
