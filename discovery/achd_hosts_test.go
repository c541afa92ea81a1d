package discovery

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestAchdHostsUseAddressOfBrowse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		searches := 0
		robot := AchdChannel{Channel: "imu", Host: "krang.local", Addr: netip.MustParseAddrPort("10.1.0.2:8076")}
		hosts := &AchdHosts{browse: func(context.Context) ([]AchdChannel, error) {
			if searches++; searches == 1 {
				return nil, errors.New("no network")
			}
			return []AchdChannel{robot}, nil
		}}
		for _, c := range []struct {
			name     string
			wait     time.Duration
			want     string // "" means that the name is not found
			searches int    // in all
		}{
			{"krang.example.com", 0, "", 0},
			{"krang", 0, "", 0},
			{"krang.local", 0, "", 1},
			{"krang.local", 0, "10.1.0.2", 2}, // a failed search is not kept
			{"Krang.local.", 9 * time.Second, "10.1.0.2", 2},
			{"other.local", 0, "", 2},
			{"krang.local", time.Second, "10.1.0.2", 3},
		} {
			time.Sleep(c.wait)
			got, ok := hosts.Addr(t.Context(), c.name)
			if ok != (c.want != "") || ok && got.String() != c.want || searches != c.searches {
				t.Errorf("Addr(%s) = %v, %v after %d searches, want %q after %d", c.name, got, ok, searches, c.want, c.searches)
			}
		}
	})
}
