package testnet_test

import (
	"fmt"
	"strings"
	"testing"
)

// A translator between the hosts forgets what it did and begins anew: the PC, which
// has dialled, is at another port from one packet to the next.
func TestMirrorsFollowWhenATranslatorForgets(t *testing.T) {
	longRun(t)
	t.Parallel()
	for transport, port := range map[string]uint16{"quic": quicPort, "sctp": sctpPort} {
		t.Run(transport, func(t *testing.T) {
			o := startOrdeal(t, "--transport", transport)
			for _, outside := range []uint16{40000, 41000} {
				o.rebind("pc", port, outside)
				o.recovers("NAT rebinding, "+transport, now())
				if links := o.status("robot").Links; len(links) != 1 || !strings.HasSuffix(links[0].Addr, fmt.Sprint(":", outside)) {
					t.Errorf("links of the robot: got %+v, want one to port %d", links, outside)
				}
			}
			o.aftermath("NAT rebinding, "+transport, o.began)
			o.keptItsLink(transport)
		})
	}
}

// A host changes its address, as one that is handed over to another access point.
func TestMirrorsFollowAHostToAnotherAddress(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"pc", "robot"} {
		for _, transport := range allTransports {
			if (host != "pc" || transport != "quic") && !isLong() {
				continue
			}
			t.Run(host+" over "+transport, func(t *testing.T) {
				o := startOrdeal(t, "--transport", transport)
				old, err := o.lab.Addr(host)
				if err != nil {
					t.Fatal(err)
				}
				roams := now()
				// In one process: between two, a busy machine would leave the host without an address.
				o.sh(host, "printf 'addr del "+old.String()+"/24 dev eth0\naddr add 10.80.76.100/24 dev eth0\nroute add 224.0.0.0/4 dev eth0\n' | ip -batch -")
				o.recovers("address of the "+host+" changed, "+transport, roams)
				o.aftermath("address of the "+host+" changed, later, "+transport, o.began)
				if host == "pc" { // the end that has dialled
					o.keptItsLink(transport)
				}
			})
		}
	}
}

// keptItsLink checks that a link over QUIC went on without a new handshake.
func (o *ordeal) keptItsLink(transport string) {
	o.t.Helper()
	if transport != "quic" {
		return
	}
	for host := range o.daemons {
		if n := o.linksUp(host); n != 1 {
			o.t.Errorf("%s: its link came up %d times, want it kept", host, n)
		}
	}
}

func (s *site) rebind(host string, inside, outside uint16) {
	s.t.Helper()
	if err := s.lab.Rebind(host, inside, outside); err != nil {
		s.t.Fatal(err)
	}
}

// sh runs a shell script on a host.
func (s *site) sh(host, script string) {
	s.t.Helper()
	if out, err := s.lab.Command(host, "sh", "-ec", script).CombinedOutput(); err != nil {
		s.t.Fatalf("%s on %s: %v\n%s", script, host, err, out)
	}
}
