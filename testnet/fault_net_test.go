package testnet_test

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// netFault is what a network does to a robot, and how it ends: comes returns the
// moment from which the network is good again.
type netFault struct {
	name  string
	comes func(*ordeal) moment
	worst time.Duration // age that is allowed meanwhile; 0: as long as the fault lasts, and resumed
	keeps bool          // a link over QUIC goes on without a new handshake
}

const badLink = 4 * time.Second // how long a link is bad that is not cut

// netFaults come one after the other in each group.
var netFaults = map[string][]netFault{
	"cuts": {
		{name: "cut for 100 ms", comes: cut("robot", 100*time.Millisecond)},
		{name: "cut for 10 s", comes: cut("robot", 10*time.Second)},
		{name: "robot to PC cut for 1 s", comes: cut("robot>pc", time.Second)},
		{name: "PC to robot cut for 1 s", comes: cut("pc>robot", time.Second)},
		{name: "robot to PC cut for 5 s", comes: cut("robot>pc", 5*time.Second)},
		{name: "PC to robot cut for 5 s", comes: cut("pc>robot", 5*time.Second)},
		{name: "PC to robot cut for 20 s", comes: cut("pc>robot", 20*time.Second)},
	},
	"a long cut": {{name: "cut for 60 s", comes: cut("robot", time.Minute)}},
	"bad links": {
		{name: "40 ms to the PC, 5 ms back", comes: bad("robot>pc", "delay=40ms"), worst: resumed},
		{name: "5 ms to the PC, 200 ms back", comes: bad("pc>robot", "delay=200ms"), worst: resumed},
		{name: "30 % lost", comes: bad("", "loss=30%")}, // QUIC takes it for a full link
		{name: "30 % lost in bursts of 5", comes: bad("", "loss=30%,burst=5")},
		{name: "30 % out of order, 30 % doubled", comes: bad("", "reorder=30%,dup=30%"), worst: resumed},
		{name: "path of 1280 B", comes: bad("", "mtu=1280"), worst: resumed},
	},
	"moves": {
		{name: "NAT rebinding", comes: rebind(40000), keeps: true},
		{name: "NAT rebinding again", comes: rebind(41000), keeps: true},
		{name: "NAT gone", comes: rebind(0), keeps: true},
		{name: "address of the PC changed", comes: move("pc", 100), keeps: true}, // of the end that has dialled
		{name: "address of the robot changed", comes: move("robot", 101)},
	},
}

// cut cuts a target of the lab for a while.
func cut(target string, long time.Duration) func(*ordeal) moment {
	return func(o *ordeal) moment {
		o.link(target, "cut")
		time.Sleep(long) // the length of the cut is what is tried
		o.link(target, "up")
		return now()
	}
}

// bad changes a target of the lab for a while, and back.
func bad(target, change string) func(*ordeal) moment {
	return func(o *ordeal) moment {
		o.link(target, change)
		time.Sleep(badLink)
		o.link(target, "delay=5ms,loss=0%,burst=none,reorder=0%,dup=0%,mtu=none")
		return now()
	}
}

// rebind has a translator between the hosts forget what it did and begin anew: the PC is at
// another port from one packet to the next; 0 takes the translator away.
func rebind(outside uint16) func(*ordeal) moment {
	return func(o *ordeal) moment {
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

// move changes the address of a host, as one that is handed over to another access point.
func move(host string, last byte) func(*ordeal) moment {
	return func(o *ordeal) moment {
		at := now()
		// In one process: between two, a busy machine would leave the host without an address.
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
				o := startOrdeal(t, "--transport", transport)
				for _, f := range faults {
					up := o.linksUp()
					o.recovers(f.name+", "+transport, f.comes(o))
					if f.worst != 0 {
						promised(t, f.name+": the oldest frame in a mirror", o.worst, f.worst)
					}
					if now := o.linksUp(); f.keeps && transport == "quic" && now != up {
						t.Errorf("%s: links came up %s, and %s before, want them kept", f.name, now, up)
					}
					o.worst = 0
				}
				o.aftermath("after all of that, "+transport, o.began)
			})
		}
	}
}

// linksUp tells how often each daemon has said that a link came up.
func (o *ordeal) linksUp() string {
	up := func(host string) int { return strings.Count(o.daemons[host].log.String(), `msg="link up"`) }
	return fmt.Sprintf("robot %d, pc %d times", up("robot"), up("pc"))
}

// QUIC needs packets of 1200 B (RFC 9000, section 14): on a path of 576 B there is no link over
// it, and the operator is told why. Transport auto takes SCTP there, whose packets can be smaller.
func TestMirrorsFollowOnAPathTooSmallForQUIC(t *testing.T) {
	need.Long(t)
	s := newSite(t, "robot", "pc")
	s.link("", "mtu=576")
	publisher := s.publish("robot", imu, joints)
	robot := s.run("robot")
	pc := s.run("pc", "--mirror", "robot/*", "--transport", "quic", "--peer", "robot")
	cause := regexp.MustCompile(`(?i)path|mtu|packets of`)
	await.NoError(t, func() error {
		peers := s.status("pc").Peers
		for _, p := range peers {
			if cause.MatchString(p.Error) {
				return nil
			}
		}
		return fmt.Errorf("peers of the PC: got %+v, want one with an error that matches %v", peers, cause)
	})
	pc.leave()
	o := s.brace(ordeal{
		publishers: []*process{publisher},
		daemons:    map[string]*process{"robot": robot, "pc": s.run("pc", "--mirror", "robot/*")},
		readers:    []*observation{s.observe("pc", keeping, reopening, parts)},
	})
	s.linkedOver("pc", "sctp")
	o.aftermath("path of 576 B, auto", cut("robot", time.Second)(o))
}
