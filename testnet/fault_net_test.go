package testnet_test

import (
	"strings"
	"testing"
	"time"
)

// netFault is what a network does to a robot, and how it ends: comes returns the
// moment from which the network is good again.
type netFault struct {
	name  string
	comes func(*ordeal) moment
	daily bool          // it is tried in every run, not only with ACHBRIDGE_LONG
	worst time.Duration // age that is allowed meanwhile; 0: as long as the fault lasts, and resumed
}

var allTransports = []string{"quic", "sctp"}

const badLink = 5 * time.Second // how long a link is bad that is not cut

var netFaults = []netFault{
	{name: "cut for 100 ms", comes: cut("robot", 100*time.Millisecond)},
	{name: "cut for 1 s", comes: cut("robot", time.Second), daily: true},
	{name: "cut for 10 s", comes: cut("robot", 10*time.Second)},
	{name: "cut for 60 s", comes: cut("robot", time.Minute)},
	{name: "robot to PC cut for 1 s", comes: cut("robot>pc", time.Second)},
	{name: "PC to robot cut for 1 s", comes: cut("pc>robot", time.Second)},
	{name: "robot to PC cut for 5 s", comes: cut("robot>pc", 5*time.Second)},
	{name: "PC to robot cut for 5 s", comes: cut("pc>robot", 5*time.Second)},
	{name: "PC to robot cut for 20 s", comes: cut("pc>robot", 20*time.Second)},
	{name: "40 ms to the PC, 5 ms back", comes: bad("robot>pc", "delay=40ms"), worst: resumed},
	{name: "5 ms to the PC, 200 ms back", comes: bad("pc>robot", "delay=200ms"), worst: resumed},
	{name: "30 % lost", comes: bad("", "loss=30%")}, // QUIC takes it for a full link
	{name: "30 % lost in bursts of 5", comes: bad("", "loss=30%,burst=5")},
	{name: "30 % out of order, 30 % doubled", comes: bad("", "reorder=30%,dup=30%"), worst: resumed},
	{name: "path of 1280 B", comes: bad("", "mtu=1280"), worst: resumed},
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

func TestNetworkFaults(t *testing.T) {
	t.Parallel()
	for _, f := range netFaults {
		if !f.daily && !isLong() {
			continue
		}
		for _, transport := range allTransports {
			t.Run(f.name+" over "+transport, func(t *testing.T) {
				if transport != "quic" {
					longRun(t)
				}
				o := startOrdeal(t, "--transport", transport)
				o.aftermath(f.name+", "+transport, f.comes(o))
				if f.worst != 0 && o.worst > o.first.allows(f.worst) {
					t.Errorf("age: got %v, want at most %v", o.worst, f.worst)
				}
			})
		}
	}
}

// startOrdeal is startRobotAndPC, braced, with more arguments for both daemons.
func startOrdeal(t *testing.T, args ...string) *ordeal {
	t.Helper()
	s := newSite(t, "robot", "pc")
	publisher := s.publish("robot", "imu:200:64", "joints:50:3000")
	daemons := map[string]*process{
		"robot": s.run("robot", args...),
		"pc":    s.run("pc", append([]string{"--mirror", "robot/*"}, args...)...),
	}
	return s.brace(ordeal{
		publishers: []*process{publisher}, daemons: daemons,
		readers: []*observation{s.observe("pc", keeping, reopening, parts)},
	})
}

// linksUp is how often the daemon of a host has said that a link came up.
func (o *ordeal) linksUp(host string) int {
	return strings.Count(o.daemons[host].log.String(), `msg="link up"`)
}
