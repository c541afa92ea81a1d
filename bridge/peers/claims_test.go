package peers

import (
	"fmt"
	"testing"
	"time"
)

func TestRateLimiterAllowsBurstThenOnePerInterval(t *testing.T) {
	a := rateLimiter{burst: 3, every: time.Second}
	for i := range 3 {
		if !a.take(0) {
			t.Errorf("take %d is refused", i+1)
		}
	}
	if a.take(0) {
		t.Error("a fourth is there at once")
	}
	if !a.take(time.Second) || a.take(time.Second) {
		t.Error("after a second there is not exactly one")
	}
	if a.giveBack(); !a.take(time.Second) {
		t.Error("what was given back is not there")
	}
}

func TestRobotIsFoundDespiteForgedAnnouncements(t *testing.T) {
	ofMany := forged("10.80.76.60", 0, 100)
	for i := 1; i < 10; i++ {
		ofMany = append(ofMany, forged(fmt.Sprint("10.80.76.", 60+i), 100*i, 100)...)
	}
	for what, lies := range map[string][]Peer{"one source": forged("10.80.76.66", 0, 1000), "ten sources": ofMany} {
		t.Run(what, func(t *testing.T) {
			n := newNetwork("*")
			n.lists(lies...)
			n.runs(5 * time.Second) // the budget is used up
			n.adds("krang", 2000)
			n.lists(append(lies, claim("10.80.76.1", "krang", 2000))...)
			if n.runs(3 * time.Second); !n.isLinked(2000) {
				t.Error("the robot is not linked after 3 s")
			}
			n.runs(12 * time.Second)
			if most := claimsAtOnce + int(20*time.Second/claimEvery) + 1; n.dialled > most {
				t.Errorf("got %d dials in 20 s, want at most %d", n.dialled, most)
			}
			if most := int(1500*time.Millisecond/claimEvery) + 1; len(n.ends) > most {
				t.Errorf("got %d dials at once, want at most %d", len(n.ends), most)
			}
			if len(n.failed) > claimLines+3 {
				t.Errorf("got %d lines for the log, want at most %d", len(n.failed), claimLines+3)
			}
		})
	}
}

// The source that a robot shares with others, because they have forged it or because a
// reflector stands between, does not keep it out: only the order changes.
func TestClaimsOfOneSourceAreDialledInTurn(t *testing.T) {
	n := newNetwork("krang")
	n.adds("krang", 2000)
	n.lists(append(forged("10.80.76.1", 0, 16), claim("10.80.76.1", "krang", 2000))...)
	if n.runs(5 * time.Second); !n.isLinked(2000) {
		t.Error("the robot is not linked after 5 s")
	}
}

func TestListedPeersBypassDialLimit(t *testing.T) {
	n := newNetwork("*")
	lies := forged("10.80.76.66", 0, 1000)
	n.lists(lies...)
	n.runs(5 * time.Second)
	n.adds("arm", 2000)
	n.lists(append(lies, listed("arm", 2000))...)
	if n.runs(100 * time.Millisecond); !n.isLinked(2000) {
		t.Error("the listed peer is not linked after 100 ms")
	}
}

// A claim to be a node that is linked is not remembered beyond the announcement.
func TestReplacedClaimsAreRemoved(t *testing.T) {
	n := newNetwork("*")
	n.adds("krang", 1)
	n.lists(claim("10.80.77.0", "krang", 1))
	n.runs(time.Second)
	for i := range 100 {
		n.lists(claim(fmt.Sprint("10.80.77.", i), "krang", 1))
	}
	if len(n.entries) != 1 || len(n.proved) != 1 {
		t.Errorf("got %d claims and %d proved nodes, want the last claim, and the robot itself", len(n.entries), len(n.proved))
	}
}

// Every node that claims a wanted name is dialled, with a part of its id behind it or
// not, until the one that has it is found.
func TestAllClaimantsOfWantedNameAreDialled(t *testing.T) {
	for what, host := range map[string]string{"name": "krang", "with its id": "krang-0000", "of its twin": "krang-0123"} {
		n := newNetwork(host)
		n.adds("krang", 1)
		list := []Peer{claim("10.80.76.1", "krang", 1)}
		for i := range 5 {
			elsewhere := claim(fmt.Sprint("10.80.78.", i), "krang", 1)
			elsewhere.Addrs[0] = at(100 + i)
			list = append(list, elsewhere, claim(fmt.Sprint("10.80.77.", i), "krang", 2+i))
		}
		n.lists(list...)
		if n.runs(3 * time.Second); !n.isLinked(1) {
			t.Errorf("%s: the robot is not linked after 3 s", what)
		}
	}
}
