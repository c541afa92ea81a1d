package testnet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// published has the percentiles of round trips over the Wi-Fi hop to which the fit-* models are
// fitted. wifi_fit.go names their sources.
var published = map[string]map[float64]time.Duration{
	"fit-campus":     {0.5: 3 * ms, 0.9: 20 * ms, 0.99: 250 * ms},
	"fit-campus-tcp": {0.5: 20 * ms, 0.9: 100 * ms},
	"fit-home-2g4":   {0.5: 6220 * time.Microsecond, 0.95: 34870 * time.Microsecond, 0.99: 58910 * time.Microsecond},
	"fit-home-5g":    {0.5: 900 * time.Microsecond, 0.95: 1580 * time.Microsecond, 0.99: 7890 * time.Microsecond},
}

// roundTrips returns the sorted round-trip times of a probe of 64 bytes every 50 ms over one air in
// both directions.
func roundTrips(t *testing.T, text string, seed uint64) (list []time.Duration) {
	airs, p := NewAirs(seed), params(t, text+",air=cell")
	there, back := NewLinkIn[time.Duration](airs, 1, p), NewLinkIn[time.Duration](airs, 2, p)
	const size, every = 64 + 28, 50 * ms
	sent := time.Duration(0)
	for now := time.Duration(0); now < conditionsLoop; {
		if now >= sent {
			there.Send(now, size, now)
			sent += every
		}
		for at, ok := there.Receive(now); ok; at, ok = there.Receive(now) {
			back.Send(now, size, at)
		}
		for at, ok := back.Receive(now); ok; at, ok = back.Receive(now) {
			list = append(list, now-at)
		}
		next := sent
		for _, l := range []*Link[time.Duration]{there, back} {
			if at, ok := l.Next(); ok {
				next = min(next, max(at, now+1))
			}
		}
		now = next
	}
	slices.Sort(list)
	return list
}

func roundTripsOf(t *testing.T, model string) (list []time.Duration) {
	for seed := uint64(100); seed < 110; seed++ { // other seeds than those of the search
		list = append(list, roundTrips(t, "wifi="+model, seed)...)
	}
	slices.Sort(list)
	return list
}

// The test prints how well each model fits.
func TestFittedWifiMatchesPublishedPercentiles(t *testing.T) {
	var fits []string
	for _, model := range WifiModels() {
		if strings.HasPrefix(model, "fit-") {
			fits = append(fits, model)
		}
	}
	if want := slices.Sorted(maps.Keys(published)); !slices.Equal(fits, want) {
		t.Errorf("got the models %v, want one for each that was published: %v", fits, want)
	}
	var table strings.Builder
	fmt.Fprintln(&table, "\n| wifi | percentile | published | model | model / published |\n|---|---|---|---|---|")
	for _, model := range fits {
		list := roundTripsOf(t, model)
		if len(list) < 20_000 {
			t.Errorf("%s: got %d of 24000 probes back, want most", model, len(list))
		}
		for _, p := range slices.Sorted(maps.Keys(published[model])) {
			want, got := published[model][p], list[int(p*float64(len(list)-1))]
			fmt.Fprintf(&table, "| %s | %g | %.2f ms | %.2f ms | %.2f |\n", model, 100*p, want.Seconds()*1e3, got.Seconds()*1e3, got.Seconds()/want.Seconds())
		}
	}
	t.Log(table.String())
}
