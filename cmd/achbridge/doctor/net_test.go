package doctor

import (
	"testing"

	"achbridge/cmd/achbridge/api"
	"achbridge/testnet/need"
)

// The kernel may let doctor join a group that it did not let the daemon join.
func TestDoctorBelievesTheDaemonAboutMulticast(t *testing.T) {
	p := look(t)
	p.config.Interfaces = []string{"lo"}
	good := checkMulticast(t.Context(), p)
	if good.State != fit {
		need.Missing(t, "multicast does not work on lo: "+good.Text)
	}
	p.joined = []api.Membership{{Interface: "lo"}, {Interface: "lo", IPv6: true}}
	expect(t, checkMulticast(t.Context(), p), fit, good.Text)
	p.joined[0].Error = "no buffer space available"
	r := checkMulticast(t.Context(), p)
	expect(t, r, r.State, "lo (IPv4): the daemon does not receive multicast: no buffer space available")
	expect(t, r, r.State, "restart the daemon; its log says more; or list the peers")
	if r.State == fit {
		t.Errorf("got %+v, want no ok", r)
	}
}
