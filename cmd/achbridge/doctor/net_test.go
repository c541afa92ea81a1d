package doctor

import (
	"strings"
	"testing"

	"achbridge/cmd/achbridge/api"
)

// The kernel may let doctor join a group after it has refused the daemon.
func TestDoctorUsesMulticastStateOfDaemon(t *testing.T) {
	p := newPatient(t)
	p.config.Interfaces = []string{"lo"}
	p.joined = []api.Membership{{Interface: "lo"}, {Interface: "lo", IPv6: true}}
	before := checkMulticast(t.Context(), p)
	if strings.Contains(before.Text, "the daemon does not receive") {
		t.Errorf("daemon that has joined the group: got %+v", before)
	}
	p.joined[0].Error = "no buffer space available"
	r := checkMulticast(t.Context(), p)
	expect(t, r, r.State, "lo (IPv4): the daemon does not receive multicast: no buffer space available")
	expect(t, r, r.State, "restart the daemon; its log says more")
	if r.State == fit {
		t.Errorf("daemon that has not joined the group: got %+v, want a warning or failure", r)
	}
}
