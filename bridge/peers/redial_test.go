package peers

import (
	"errors"
	"slices"
	"testing"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/transport"
)

// silences makes the robot's link silent, and its address unreachable. It returns the link.
func (n *network) silences() *Link {
	l := n.view.Linked[id(1)]
	delete(n.nodes, at(1).String())
	n.now = n.now.Round(time.Second)
	l.IsSilent, l.HeardAt = true, n.now
	return l
}

// dials lets d pass and returns when dials began, counted from now, in steps of 250 ms. each is called at every step.
func (n *network) dials(d time.Duration, each func()) (list []time.Duration) {
	begin := n.now
	for n.now < begin+d {
		each()
		before := n.dialled
		at := (n.now - begin).Truncate(250 * time.Millisecond)
		n.runs(20 * time.Millisecond)
		for range n.dialled - before {
			list = append(list, at)
		}
	}
	return list
}

func TestSilentPeerIsDialledAfter1And2And4Seconds(t *testing.T) {
	n := withRobot()
	n.silences()
	s := time.Second
	if got, want := n.dials(10*s, func() {}), []time.Duration{s, 2 * s, 4 * s, 8 * s}; !slices.Equal(got, want) {
		t.Errorf("a silent link: got dials at %v, want %v", got, want)
	}
	n.unlinks(1, LinkEnd{Greeted: true, TimedOut: true})
	if got, want := n.dials(10*s, func() {}), []time.Duration{2 * s, 6 * s}; !slices.Equal(got, want) {
		t.Errorf("after its end: got dials at %v, want %v", got, want)
	}
}

// In a fade packets still arrive, although frames are not answered in time.
func TestAnsweringPeerIsNotDialled(t *testing.T) {
	n := withRobot()
	l := n.silences()
	heard := func() {
		if n.now >= l.HeardAt+900*time.Millisecond {
			l.HeardAt = n.now
		}
	}
	if got := n.dials(20*time.Second, heard); len(got) > 0 {
		t.Errorf("got dials at %v, want none", got)
	}
}

func TestAnnouncementCausesOneEarlierDial(t *testing.T) {
	n := withRobot()
	n.silences()
	n.runs(4500 * time.Millisecond)
	n.Announced(n.now, id(1))
	n.adds("robot", 1)
	if got := n.dials(3*time.Second, func() {}); len(got) != 1 || got[0] > time.Second {
		t.Errorf("got dials at %v, want one within a second", got)
	}
}

// A sign that is older than the last packet from the peer says nothing about a restart after it.
func TestAnnouncementOlderThanLastPacketIsIgnored(t *testing.T) {
	n := withRobot()
	n.Announced(n.now, id(1))
	n.now += time.Second
	n.silences()
	if got := n.dials(900*time.Millisecond, func() {}); len(got) > 0 {
		t.Errorf("got dials at %v, want none", got)
	}
}

func TestAnnouncementFloodCausesOneDialPerSecond(t *testing.T) {
	for what, isLinked := range map[string]bool{"silent link": true, "no link": false} {
		t.Run(what, func(t *testing.T) {
			n := withRobot()
			l := n.silences()
			if !isLinked {
				n.unlinks(1, LinkEnd{Greeted: true, TimedOut: true})
			}
			got := n.dials(10*time.Second, func() {
				n.Announced(n.now, id(1))
				l.HeardAt = n.now
			})
			if len(got) > 11 {
				t.Errorf("got %d dials in 10 s, want one a second", len(got))
			}
			for i := range len(got) - 1 {
				if got[i+1]-got[i] < time.Second {
					t.Errorf("got dials at %v and %v, want a second between them", got[i], got[i+1])
				}
			}
		})
	}
}

func TestRefusingPeerIsShownAsDialling(t *testing.T) {
	n := newNetwork()
	n.lists(listed("robot", 1))
	n.Dialled(0, n.Next(0, n.view)[0], nil, errors.New("refused"), n.view)
	if got := n.Status(0, n.view)[0].State; got != status.PeerDialling {
		t.Errorf("a second before the next dial: State = %s, want %s", got, status.PeerDialling)
	}
}

// A PMTU black hole carries no handshake of QUIC, and small packets of the link still arrive.
func TestAnsweringPeerIsDialledOnceOverSCTP(t *testing.T) {
	n := withRobot(transport.Addrs{SCTP: at(1).QUIC})
	n.cfg.Listen.SCTP = at(0).QUIC
	l := n.silences()
	l.SilentSince = n.now
	var dials []*Dial
	for end := n.now + 20*time.Second; n.now < end; n.now += 250 * time.Millisecond {
		l.HeardAt = n.now
		for _, d := range n.Next(n.now, n.view) {
			dials = append(dials, d)
			n.Dialled(n.now, d, nil, errors.New("no answer"), n.view)
		}
	}
	if len(dials) != 1 || len(dials[0].Addrs) != 1 || dials[0].Addrs[0].QUIC != nil {
		t.Errorf("got dials %+v, want one to the address for SCTP", dials)
	}
}

// A restarted host announces itself. Its link before is silent, and packets may have arrived on it until a moment ago.
func TestSignPermitsDialOverEachTransport(t *testing.T) {
	n := withRobot(transport.Addrs{SCTP: at(1).QUIC})
	n.cfg.Listen.SCTP = at(0).QUIC
	l := n.silences()
	l.SilentSince = n.now
	n.now += 1500 * time.Millisecond
	l.HeardAt = n.now - 100*time.Millisecond
	n.Announced(n.now, id(1))
	n.now += 100 * time.Millisecond
	dials := n.Next(n.now, n.view)
	if !slices.ContainsFunc(dials, func(d *Dial) bool { return d.Addrs[0].QUIC != nil }) {
		t.Errorf("got %d dials, none to the address for QUIC", len(dials))
	}
}
