package peers

import (
	"slices"
	"testing"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/via"
)

func TestBackoffGrowsWithAbsence(t *testing.T) {
	now := time.Hour
	for gone, most := range map[time.Duration]time.Duration{
		time.Second: returnBackoff, 50 * time.Second: returnBackoff, 2 * time.Minute: 1200 * time.Millisecond, 30 * time.Minute: LastBackoff,
	} {
		p := &peer{lastLink: lost, endedAt: now - gone}
		if got := p.backoff(now, 100, nil); got > most || got < most*2/3 {
			t.Errorf("gone for %v: got %v, want %v or up to a third less", gone, got, most)
		}
	}
}

func TestAbsentPeerIsRemoved(t *testing.T) {
	n := withRobot()
	n.lists()
	n.unlinks(1, LinkEnd{Greeted: true})
	n.runs(provedFor - time.Minute)
	if got := n.Status(n.now, n.view); len(got) != 1 || got[0].State != status.PeerMissed {
		t.Errorf("after %v: got peers %+v, want one that is missed", provedFor-time.Minute, got)
	}
	n.runs(time.Minute + time.Second)
	if got := n.Status(n.now, n.view); len(got) != 0 {
		t.Errorf("after %v: got peers %+v, want none", provedFor, got)
	}
}

// A PC in whose network many hosts were links remembers the last of them only.
func TestProvedNodesAreBounded(t *testing.T) {
	n := newNetwork()
	for i := range 2 * maxProved {
		n.Linked(time.Duration(i), &Link{End: End{Node: id(i), At: at(i)}}, n.view)
	}
	if got := len(n.proved); got != maxProved {
		t.Errorf("got %d, want %d", got, maxProved)
	}
	if n.proved[id(maxProved-1)] != nil || n.proved[id(2*maxProved-1)] == nil {
		t.Error("got an old one kept, or the newest forgotten")
	}
}

func TestAnnouncedAddressesAreLimited(t *testing.T) {
	n := withRobot(at(2))
	list := []Peer{n.entries[listed("robot", 1).key()].Peer}
	for i := range 100 {
		forged := claim("anybody", "robot", 1)
		forged.Addrs = []transport.Addrs{at(100 + i)}
		list = append(list, forged)
	}
	n.lists(list...)
	n.runs(time.Second)
	ways := n.otherWays(n.proved[id(1)], n.view.Linked[id(1)], n.view)
	if len(ways) != maxWays || !ways[0].Equal(at(2)) {
		t.Errorf("got %d ways, %v first; want %d, %v first", len(ways), ways, maxWays, at(2))
	}
}

// A trial costs a handshake.
func TestTrialsWithOnePeerAreAMinuteApart(t *testing.T) {
	n := withRobot(at(2))
	l := n.view.Linked[id(1)]
	trials := func(d time.Duration) (count int) {
		for range d / time.Second {
			n.runs(time.Second)
			if n.IsTrialDue(n.now, l) {
				if _, ok := n.NextTrial(n.now, l, n.view); ok {
					count++
				}
			}
		}
		return count
	}
	if got := trials(time.Minute); got != 0 {
		t.Errorf("got %d trials with a link of no round trip, want none", got)
	}
	l.RTT = trialAbove
	if got := trials(5 * time.Minute); got != 5 {
		t.Errorf("got %d trials in 5 minutes, want 5", got)
	}
	l.WrongMachine = true
	n.runs(time.Minute)
	if got := trials(time.Minute); got != int(time.Minute/TrialTime) {
		t.Errorf("got %d trials in a minute while another machine is linked, want one every %v", got, TrialTime)
	}
}

func TestTrialOutcomes(t *testing.T) {
	ms := func(list ...int) (times []time.Duration) {
		for _, x := range list {
			times = append(times, time.Duration(x)*time.Millisecond)
		}
		return times
	}
	for what, c := range map[string]struct {
		link, way []time.Duration
		want      Step
	}{
		"half":                   {ms(20, 20, 20), ms(10, 10, 10), Better},
		"not half":               {ms(20, 20, 20), ms(11, 11, 11), Worse},
		"one lost":               {ms(20, 20, 20), ms(2, 2), Worse},
		"none came":              {nil, nil, Worse},
		"one late":               {ms(20, 20, 20), ms(2, 2, 21), Worse},
		"the link was slow once": {ms(10, 10, 400), ms(6, 6, 6), Worse},
	} {
		trial := &Trial{}
		for i, rtt := range c.link {
			if got := trial.Next(time.Duration(i+1)*trialStamps, rtt); got != Stamp {
				t.Errorf("%s: got step %d, want a stamp", what, got)
			}
		}
		for _, rtt := range c.way {
			trial.Answered(rtt)
		}
		if got := trial.Next(TrialTime, 0); got != c.want {
			t.Errorf("%s: got step %d, want %d", what, got, c.want)
		}
	}
}

// Another robot has got the address under which a robot is still listed. That robot is found at its other address.
func TestReusedAddressKeepsLinks(t *testing.T) {
	n := newNetwork("*")
	n.adds("krang", 1)
	krang, robot := listed("krang", 1), listed("robot", 2)
	robot.Addrs = []transport.Addrs{at(1)}
	n.lists(krang, robot)
	n.runs(10 * time.Second)
	if want := "krang, node " + id(1) + ", answers there"; n.accepted != 1 || len(n.failed) != 1 || n.failed[0].Err.Error() != want {
		t.Errorf("got %d links one after the other and %v, want 1 and %q", n.accepted, n.failed, want)
	}
	n.adds("robot", 2)
	robot.Addrs = append(robot.Addrs, at(2))
	n.lists(krang, robot)
	if n.runs(500 * time.Millisecond); !n.isLinked(2) {
		t.Error("the robot is not linked after 500 ms")
	}
	if n.runs(10 * time.Second); n.accepted != 2 {
		t.Errorf("got %d links one after the other, want 2", n.accepted)
	}
}

// Where the missed peer was another node lives now.
func TestPeerReplacedAtItsAddressIsNotMissing(t *testing.T) {
	n := withRobot()
	n.lists()
	n.unlinks(1, LinkEnd{Greeted: true})
	n.nodes[at(1).String()] = End{Node: id(2), Host: "robot", At: at(1), Via: via.QUIC, Dialled: true}
	n.runs(10 * time.Second)
	if list := n.Status(n.now, n.view); len(list) != 1 || list[0].Node != id(2) {
		t.Errorf("got peers %+v, want only the new one", list)
	}
}

// An announcement at the address of a listed peer does not make that peer missing.
func TestAnnouncementDoesNotMakeListedPeerMissing(t *testing.T) {
	n := newNetwork()
	n.adds("krang", 1)
	p := listed("ghost", 9) // both in one
	p.Addrs = []transport.Addrs{at(1)}
	n.lists(p)
	n.runs(20 * time.Second)
	if n.IsListedMissing(n.view) || n.accepted != 1 {
		t.Errorf("got it missing: %v, with %d links one after the other, want 1", n.IsListedMissing(n.view), n.accepted)
	}
}

// Somebody announces the robot at another address and with SCTP only.
func TestAnnouncementDoesNotChangeLinkTransport(t *testing.T) {
	n := newNetwork("krang")
	n.adds("krang", 1)
	lie := claim("10.80.76.66", "krang", 1)
	lie.Addrs, lie.Over = []transport.Addrs{at(2)}, via.SCTP
	n.lists(claim("10.80.76.1", "krang", 1), lie)
	if n.runs(10 * time.Second); n.accepted != 1 || !n.Allows(n.nodes[at(1).String()], n.view) {
		t.Errorf("got %d links one after the other, want 1", n.accepted)
	}
}

// The operator lists an address, or the name of a machine. The host has another name, which its certificate proves.
func TestListedPeerGetsProvedName(t *testing.T) {
	n := newNetwork()
	n.adds("krang", 1)
	n.lists(Peer{Host: "robot", Addrs: []transport.Addrs{at(1)}, Static: true})
	for _, links := range []int{1, 2} { // the second time after krang was away
		n.runs(10 * time.Second)
		if list := n.Status(n.now, n.view); len(list) != 1 || list[0].Host != "krang" || list[0].ListedAs != "robot" || list[0].State != status.PeerLinked {
			t.Errorf("got peers %+v, want krang, listed as robot", list)
		}
		if name := n.NameOfListed("robot", n.view); name != "krang" || n.IsListedMissing(n.view) || n.accepted != links {
			t.Errorf("got the name %q and %d links one after the other, want krang and %d", name, n.accepted, links)
		}
		n.unlinks(1, LinkEnd{Greeted: true})
		if !n.IsListedMissing(n.view) {
			t.Error("krang is not missing without a link")
		}
		n.adds("krang", 1)
	}
}

func TestPeerListedTwiceIsLinkedOnce(t *testing.T) {
	n := withRobot()
	n.lists(claim("", "robot", 1), Peer{Addrs: []transport.Addrs{at(1)}, Static: true})
	if n.runs(10 * time.Second); n.accepted != 1 {
		t.Errorf("got %d links one after the other, want 1", n.accepted)
	}
}

func TestMovedNodeIsDialledAtOnce(t *testing.T) {
	n := newNetwork("robot")
	n.adds("robot", 1)
	p := listed("robot", 1)
	p.Addrs = []transport.Addrs{at(2)}
	n.lists(p)
	n.runs(time.Minute) // the back-off is at its longest
	n.lists(listed("robot", 1))
	if n.runs(100 * time.Millisecond); !n.isLinked(1) {
		t.Error("the robot is not linked after 100 ms")
	}
}

func TestListedTransportOverridesRule(t *testing.T) {
	quic := []transport.Addrs{at(1)}
	sctp := []transport.Addrs{{SCTP: at(1).QUIC}}
	both := []transport.Addrs{{QUIC: at(1).QUIC, SCTP: at(1).QUIC}}
	for what, c := range map[string]struct {
		peer Peer
		want []transport.Addrs
	}{
		"rule":              {Peer{Host: "robot"}, sctp},
		"another rule":      {Peer{Host: "pc1"}, quic},
		"no rule":           {Peer{Host: "arm"}, both},
		"list":              {Peer{Host: "robot", Over: via.QUIC}, quic},
		"unknown":           {Peer{}, both},
		"announced, a rule": {Peer{Host: "robot", Source: "anybody", Over: via.QUIC}, sctp},
	} {
		n := newNetwork()
		n.cfg.Listen = both[0]
		n.view.Over = []Choice{{"pc*", via.QUIC}, {"rob*", via.SCTP}}
		c.peer.Addrs = both
		if got := n.usable(&peer{Peer: c.peer}, n.view); !slices.EqualFunc(got, c.want, transport.Addrs.Equal) {
			t.Errorf("%s: got %v, want %v", what, got, c.want)
		}
	}
}
