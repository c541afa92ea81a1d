package doctor

import (
	"strings"
	"testing"

	"achbridge/bridge/status"
	"achbridge/bridge/via"
	"achbridge/cmd/achbridge/api"
)

func TestPathsAreJudgedByMeasuredSizes(t *testing.T) {
	to := func(peer, iface string, bytes int) path {
		return path{peer, via.SCTP, bytes, iface}
	}
	lan, vpn := iface{"eth0", 1500}, iface{"tun0", 1000}
	for name, test := range map[string]struct {
		ifaces []iface
		paths  []path
		state  fitness
		fix    string
	}{
		"large interface":                        {[]iface{lan}, nil, fit, ""},
		"small interface without daemon":         {[]iface{lan, vpn}, nil, failing, "ip link set tun0 mtu 1500; or transport: sctp"},
		"small interface without links":          {[]iface{lan, vpn}, []path{to("pc", "eth0", 1196)}, doubt, "ip link set tun0"},
		"small interface that suffices":          {[]iface{vpn}, []path{to("pc", "tun0", 900)}, fit, ""},
		"interface made smaller than a datagram": {[]iface{{"eth0", 1200}}, []path{to("pc", "eth0", 1195)}, failing, "ip link set eth0 mtu 1500"},
		"narrow path by small interface":         {[]iface{vpn}, []path{to("pc", "tun0", 500)}, doubt, "ip link set tun0 mtu 1500"},
		"narrow path by large interface":         {[]iface{lan}, []path{to("pc", "eth0", 500)}, doubt, "of the path to pc"},
	} {
		r := judgePaths(test.ifaces, test.paths)
		if r.State != test.state || !strings.Contains(r.Fix, test.fix) {
			t.Errorf("%s: got %+v, want %s, %q", name, r, test.state, test.fix)
		}
	}
}

// A link through the hub has no datagrams.
func TestPathsIgnoreLinksThroughHub(t *testing.T) {
	p := newPatient(t)
	p.daemon = &api.StatusReply{}
	p.daemon.Links = []status.Link{{Peer: "planner", Addr: "hub", Way: status.WayHub}}
	if r := checkPaths(t.Context(), p); strings.Contains(r.Text, "planner") || strings.Contains(r.Fix, "tracepath") {
		t.Errorf("got %+v, want nothing about planner", r)
	}
}

func TestLinkLeavesByInterfaceOfItsRoute(t *testing.T) {
	if got := localAddr("127.0.0.1:8076"); got != "127.0.0.1" {
		t.Errorf("localAddr = %q, want 127.0.0.1", got)
	}
}
