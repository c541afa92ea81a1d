package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/via"
)

// network runs a table in virtual time. Dials to the address of a node succeed after 10 ms, others fail after Dial.Each.
type network struct {
	*Table
	view              View
	now               time.Duration
	nodes             map[string]End // the nodes that answer, by address
	ends              map[*Dial]time.Duration
	failed            []Unreachable
	dialled, accepted int
}

func newNetwork(wanted ...string) *network {
	n := &network{view: View{Linked: map[string]*Link{}, Wanted: wanted}, nodes: map[string]End{}, ends: map[*Dial]time.Duration{}}
	n.Table = New(Config{Node: id(0), Listen: at(0), Cause: func(error) status.Cause { return status.CauseOther }})
	return n
}

// withRobot returns a network with a linked robot, node 1. The robot is listed at its address and at others.
func withRobot(others ...transport.Addrs) *network {
	n, robot := newNetwork("robot"), listed("robot", 1)
	n.adds("robot", 1)
	robot.Addrs = append(robot.Addrs, others...)
	n.lists(robot)
	n.runs(2 * Settled)
	return n
}

func id(i int) string { return fmt.Sprintf("%032x", i) }

// at returns address i, for QUIC.
func at(i int) transport.Addrs {
	return transport.Addrs{QUIC: &net.UDPAddr{IP: net.IPv4(10, 81, byte(i>>8), byte(i)), Port: 1}}
}

// claim returns an announcement of node i at its address.
func claim(source, host string, i int) Peer {
	return Peer{Source: source, Host: host, Node: id(i), Addrs: []transport.Addrs{at(i)}}
}

func listed(host string, i int) Peer {
	p := claim("", host, i)
	p.Static = true
	return p
}

// forged returns announcements from one source, for nodes that do not exist.
func forged(source string, from, count int) (list []Peer) {
	for i := from; i < from+count; i++ {
		list = append(list, claim(source, "krang", i))
	}
	return list
}

func (n *network) lists(list ...Peer) { n.Set(list, n.view) }

// adds makes node i answer at its address.
func (n *network) adds(host string, i int) {
	n.nodes[at(i).String()] = End{Node: id(i), Host: host, At: at(i), Via: via.QUIC, Dialled: true}
}

// runs advances the time by d, in steps of 20 ms.
func (n *network) runs(d time.Duration) {
	for end := n.now + d; n.now < end; n.now += 20 * time.Millisecond {
		for _, d := range append(n.Next(n.now, n.view), n.NextByHub(n.now, n.view)...) {
			n.dialled++
			n.ends[d] = n.now + d.Wait + max(hubAfter, time.Duration(len(d.Addrs))*d.Each)
			if len(d.Addrs) > 0 && n.nodes[d.Addrs[0].String()].Node != "" {
				n.ends[d] = n.now + d.Wait + 10*time.Millisecond
			}
			d.Cancel = func() { n.ends[d] = -1 }
		}
		n.failed = append(n.failed, n.Unreachable()...)
		for d, end := range n.ends {
			if end <= n.now {
				delete(n.ends, d)
				n.end(d, end < 0)
			}
		}
	}
}

// end passes the result of a dial to the table.
func (n *network) end(d *Dial, isCancelled bool) {
	err := errors.New("no answer")
	if isCancelled {
		err = context.Canceled
	}
	var s *End
	if len(d.Addrs) > 0 && !isCancelled {
		if e := n.nodes[d.Addrs[0].String()]; e.Node != "" {
			s, err = &e, nil
		}
	}
	if n.Dialled(n.now, d, s, err, n.view) == Accepted {
		n.accepted++
		l := &Link{End: *s, Name: s.Host, UpAt: n.now}
		n.view.Linked[s.Node] = l
		n.Linked(n.now, l, n.view)
	}
}

// unlinks ends the link to node i.
func (n *network) unlinks(i int, end LinkEnd) {
	l := n.view.Linked[id(i)]
	delete(n.view.Linked, id(i))
	delete(n.nodes, at(i).String())
	n.Unlinked(n.now, l, end)
}

func (n *network) isLinked(i int) bool { return n.view.Linked[id(i)] != nil }

// Discovery may withdraw a peer's last address while a dial to the peer ends.
func TestPeerWithoutAddressesIsUnreachable(t *testing.T) {
	n := newNetwork()
	n.lists(listed("robot", 1))
	d := n.Next(0, n.view)[0]
	d.peer.Addrs = nil
	n.Dialled(0, d, nil, errors.New("no answer"), n.view)
	if got := n.Unreachable(); len(got) != 1 || got[0].Host != "robot" {
		t.Errorf("got %v, want that the robot cannot be reached", got)
	}
}

func TestDialOutcomeDependsOnLinks(t *testing.T) {
	robot := &End{Node: id(1), Host: "robot", At: at(1), Via: via.QUIC, Dialled: true}
	arm := &End{Node: id(2), Host: "arm", At: at(1), Via: via.QUIC}
	recovered, silent := &Link{End: *robot}, &Link{End: *robot, IsSilent: true}
	var many []*Link
	for i := range MaxLinks {
		many = append(many, &Link{End: End{Node: id(100 + i), At: at(100 + i)}})
	}
	for what, c := range map[string]struct {
		session  *End
		err      error
		silent   *Link
		links    []*Link
		want     Outcome
		failures int
	}{
		"no answer":              {nil, errors.New("timeout"), nil, nil, Failed, 1},
		"ended by the table":     {nil, context.Canceled, nil, nil, Cancelled, 0},
		"the robot":              {robot, nil, nil, nil, Accepted, 0},
		"the robot has a link":   {robot, nil, nil, []*Link{{End: *robot}}, Needless, 0},
		"another node":           {arm, nil, nil, nil, Accepted, 1},
		"another, with a link":   {arm, nil, nil, []*Link{{End: *arm}}, WrongNode, 1},
		"the link stays silent":  {robot, nil, silent, []*Link{silent}, Accepted, 0},
		"the link has recovered": {robot, nil, recovered, []*Link{recovered}, Recovered, 0},
		"too many links":         {robot, nil, nil, many, NoRoom, 1},
	} {
		n := newNetwork()
		for _, l := range c.links {
			n.view.Linked[l.Node] = l
		}
		p := &peer{Peer: claim("", "robot", 1)}
		d := n.dial(0, p, c.silent, p.Addrs)
		if got := n.Dialled(0, d, c.session, c.err, n.view); got != c.want || p.failures != c.failures || p.dial != nil {
			t.Errorf("%s: got outcome %d with %d failures, want %d with %d", what, got, p.failures, c.want, c.failures)
		}
		if n.lists(listed("robot", 1)); c.want == NoRoom && !n.HasRoom(*robot, n.view) {
			t.Error("got no room for a listed peer, want room")
		}
	}
}

func TestPeerWithoutACommonTransportIsReported(t *testing.T) {
	quic, sctp := at(1), transport.Addrs{SCTP: at(1).QUIC}
	both := transport.Addrs{QUIC: quic.QUIC, SCTP: sctp.SCTP}
	for want, c := range map[string]struct {
		theirs, ours transport.Addrs
		over         via.Kind
	}{
		"listens on quic only, this node on sctp: start one of them with --transport=auto":                      {quic, sctp, via.Any},
		"listens on sctp only, this node on quic":                                                               {sctp, quic, via.Any},
		"must be linked over sctp, but listens on quic only: start it with --transport=auto":                    {quic, both, via.SCTP},
		"start it with --transport=auto, or remove transport: sctp from the mirror and push rules that name it": {quic, both, via.Any},
	} {
		n := newNetwork()
		n.cfg.Listen = c.ours
		n.view.Over = []Choice{{"robot", via.SCTP}}
		n.lists(Peer{Host: "robot", Addrs: []transport.Addrs{c.theirs}, Static: true, Over: c.over})
		if strings.Contains(want, "this node") {
			n.view.Over = nil
		}
		n.runs(20 * time.Second)
		if list := n.Status(n.now, n.view); len(list) != 1 || !strings.Contains(list[0].Error, want) || len(n.failed) != 1 {
			t.Errorf("got %+v and %d reports, want %q and one report", list, len(n.failed), want)
		}
	}
}

// A hub can announce any number of hosts.
func TestHubDialsAreLimited(t *testing.T) {
	n := newNetwork("*")
	var list []Peer
	for i := range 4 * maxHubDials {
		list = append(list, Peer{Host: fmt.Sprint("robot", i), Source: "hub", Hub: true})
	}
	n.lists(list...)
	n.runs(hubAfter)
	if len(n.ends) != 0 {
		t.Errorf("got %d dials before %v, want none", len(n.ends), hubAfter)
	}
	if n.runs(time.Second); len(n.ends) != maxHubDials {
		t.Errorf("%d dials are under way, want %d", len(n.ends), maxHubDials)
	}
}

// A host's name may equal the disambiguated name of another host.
func TestDistinctNameIsUnique(t *testing.T) {
	for name, want := range map[string]string{"krang": "krang-ab12cd34", "arm": "arm-ab12", strings.Repeat("k", 63): strings.Repeat("k", 58) + "-ab12"} {
		if got := DistinctName(name, "ab12cd34"+id(0)[8:], map[string]bool{"krang-ab12": true}); got != want {
			t.Errorf("DistinctName(%q) = %q, want %q", name, got, want)
		}
	}
}
