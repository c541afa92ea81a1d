package testnet_test

import (
	"fmt"
	"strings"
	"testing"

	"achbridge/cmd/achbridge/api"
	"achbridge/testnet/await"
)

// Docker makes a bridge for each of its networks. A socket may join the group on 20 of them.
func TestDoctorAsksTheDaemonWhatItHasJoined(t *testing.T) {
	s := newSite(t, "pc")
	s.shell("pc", `for i in $(seq 25); do ip link add br$i type bridge && ip addr add 172.20.$i.1/24 dev br$i && ip link set br$i up || exit 1; done`)
	s.run("pc").awaitLog("msg=running")
	await.NoError(t, func() error {
		var setup api.DaemonSetup
		if err := s.api("pc", "/v1/setup", &setup); err != nil {
			return err
		}
		count := 0
		for _, m := range setup.Memberships {
			if m.Error != "" {
				return fmt.Errorf("got %+v, want it joined", m)
			}
			if !m.IPv6 && (strings.HasPrefix(m.Interface, "br") || m.Interface == "eth0") {
				count++
			}
		}
		if count != 26 {
			return fmt.Errorf("got %d memberships, want 26", count)
		}
		return nil
	})
	await.NoError(t, func() error { // the kernel first checks whether the IPv6 addresses are free
		list, _ := s.doctor("pc")
		if c := list["multicast"]; c.State != "ok" || !strings.Contains(c.Text, "br25 (IPv4)") {
			return fmt.Errorf("got %+v, want it good on all interfaces", c)
		}
		return nil
	})
}
