package testnet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Three hosts that mirror and relay all that there is, in both directions: each
// channel comes to each of the others once, directly, and so does every frame
// (observe checks that none comes twice, and the ledger that none is unaccounted).
func TestRingOfRelaysPutsEveryFrameOnce(t *testing.T) {
	longRun(t)
	hosts := []string{"robot", "pc", "base"}
	s := newSite(t, hosts...)
	o := ordeal{daemons: map[string]*process{}}
	for _, host := range hosts {
		o.publishers = append(o.publishers, s.publish(host, "state-"+host+":100:64"))
	}
	for _, host := range hosts {
		o.daemons[host] = s.run(host, "--mirror", "*/*", "--relay", "*")
	}
	for _, daemon := range o.daemons {
		daemon.awaitLog("msg=running", met)
	}
	before := map[string][]string{}
	for _, host := range hosts {
		before[host] = s.mirrorOfEach(host, hosts)
		o.readers = append(o.readers, s.observe(host, before[host]...))
	}
	ring := s.brace(o)
	ring.aftermath("ring of three relays, one cut for 1 s", cut("robot", time.Second)(ring))
	for _, host := range hosts {
		if after := s.mirrorOfEach(host, hosts); !slices.Equal(after, before[host]) {
			t.Errorf("%s: got views %v after the cut, want %v as before", host, after, before[host])
		}
	}
}

// mirrorOfEach waits until a host has a live mirror of the channel of each other
// host, and none by way of another one, and returns views of them.
func (s *site) mirrorOfEach(host string, hosts []string) (views []string) {
	s.t.Helper()
	await(s.t, met, func() error {
		views = nil
		got := s.status(host)
		for _, other := range hosts {
			live, want := 0, 1
			if other == host {
				want = 0 // its own frames would have come round
			}
			for _, m := range got.Mirrors {
				if m.State == "live" && strings.HasSuffix(m.Name, ".state-"+other) {
					views = append(views, "keep:"+m.Name)
					live++
				}
			}
			if direct := "keep:" + other + ".state-" + other; live == 1 && views[len(views)-1] != direct {
				return fmt.Errorf("%s: got %s, want %s", host, views[len(views)-1], direct)
			}
			if live != want {
				return fmt.Errorf("%s: got %d live mirrors of the channel of %s, want %d: %+v", host, live, other, want, got.Mirrors)
			}
		}
		return nil
	})
	return views
}
