package testnet_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// netFault is a network fault. inject injects the fault, ends it, and returns the moment
// from which the network works again.
type netFault struct {
	name      string
	inject    func(*faultTest) moment
	keepsLink bool // a link over QUIC survives without a new handshake
}

// netFaults are injected one after the other in each group.
var netFaults = map[string][]netFault{
	"cuts": {
		{name: "cut for 10 s", inject: cut("robot", 10*time.Second)},
		{name: "cut for 60 s", inject: cut("robot", time.Minute)},
	},
	"moves": {
		{name: "NAT rebinding", inject: rebind(40000), keepsLink: true},
		{name: "NAT rebinding again", inject: rebind(41000), keepsLink: true},
		{name: "NAT gone", inject: rebind(0), keepsLink: true},
		{name: "address of the PC changed", inject: move("pc", 100), keepsLink: true}, // the PC has dialled
		{name: "address of the robot changed", inject: move("robot", 101)},
	},
}

// cut returns a fault that cuts a target of the lab.
func cut(target string, long time.Duration) func(*faultTest) moment {
	return func(o *faultTest) moment {
		o.link(target, "cut")
		time.Sleep(long) // the length of the cut
		o.link(target, "up")
		return now()
	}
}

// rebind returns a fault in which a NAT between the hosts loses its mappings: from one packet to
// the next the PC has another port. 0 removes the NAT.
func rebind(outside uint16) func(*faultTest) moment {
	return func(o *faultTest) moment {
		inside := map[string]uint16{"quic": quicPort, "sctp": sctpPort}[o.status("pc").Links[0].Transport.String()]
		if err := o.lab.Rebind("pc", inside, outside); err != nil {
			o.t.Fatal(err)
		}
		over, at := now(), fmt.Sprint(":", cmp.Or(outside, inside))
		await.NoError(o.t, func() error {
			if links := o.status("robot").Links; len(links) != 1 || !strings.HasSuffix(links[0].Addr, at) {
				return fmt.Errorf("links of the robot: got %+v, want one to port %s", links, at)
			}
			return nil
		})
		return over
	}
}

// move returns a fault that changes the address of a host, as a handover to another access point does.
func move(host string, last byte) func(*faultTest) moment {
	return func(o *faultTest) moment {
		at := now()
		// Use one process: between two, a busy machine could leave the host without an address for long.
		o.shell(host, fmt.Sprintf(`old=$(ip -4 -o addr show eth0 | awk '{print $4}')
			printf "addr del $old dev eth0\naddr add 10.80.76.%d/24 dev eth0\nroute add 224.0.0.0/4 dev eth0\n" | ip -batch -`, last))
		return at
	}
}

func TestMirrorsFollowAfterNetworkFaults(t *testing.T) {
	need.Long(t)
	t.Parallel()
	for group, faults := range netFaults {
		for _, transport := range []string{"quic", "sctp"} {
			t.Run(group+" over "+transport, func(t *testing.T) {
				o := startFaultTestOfTwo(t, "--transport", transport)
				for _, f := range faults {
					up := o.countLinksUp()
					o.checkRecovery(f.name+", "+transport, f.inject(o))
					if now := o.countLinksUp(); f.keepsLink && transport == "quic" && now != up {
						t.Errorf("%s: links came up %s, and %s before, want them kept", f.name, now, up)
					}
				}
				o.finish("after all of that, "+transport, o.began)
			})
		}
	}
}

// countLinksUp returns how often each daemon has logged that a link came up.
func (o *faultTest) countLinksUp() string {
	up := func(host string) int { return strings.Count(o.daemons[host].log.String(), `msg="link up"`) }
	return fmt.Sprintf("robot %d, pc %d times", up("robot"), up("pc"))
}
