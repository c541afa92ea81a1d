package discovery

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for what should take far less.
const patience = 10 * time.Second

func announcing(name, id string) order {
	o := order{Announce: true}
	o.Config.Self = Peer{Host: name, Node: node(id), Network: "11111111", life: time.Minute,
		Channels: []Channel{{"imu", 16, 64}}}
	o.Config.Life, o.Config.Port = time.Minute, 8076
	return o
}

func watching() order {
	o := order{Watch: true}
	o.Config.Self = Peer{Host: "pc", Node: node("99"), Network: "11111111"}
	return o
}

// pair is two hosts on one switch.
func pair(t *testing.T) (l *lab, robot, pc *host) {
	t.Helper()
	t.Parallel()
	l = newLab(t)
	l.addSwitch("sw0")
	robot, pc = l.addHost(), l.addHost()
	robot.plug("eth0", "sw0", "10.0.0.2/24")
	pc.plug("eth0", "sw0", "10.0.0.1/24")
	return l, robot, pc
}

func named(names ...string) func([]Peer) bool {
	return func(ps []Peer) bool {
		var got []string
		for _, p := range ps {
			got = append(got, p.Host)
		}
		return slices.Equal(got, names)
	}
}

func at(addr string) func([]Peer) bool {
	want := netip.MustParseAddrPort(addr)
	return func(ps []Peer) bool { return len(ps) == 1 && len(ps[0].Addrs) > 0 && ps[0].Addrs[0] == want }
}

func TestHostIsFoundAndLeavesWithAGoodbye(t *testing.T) {
	_, robot, pc := pair(t)
	w := startNode(t, pc, watching())
	a := startNode(t, robot, announcing("robot", "a1"))
	found := w.until("the robot", patience, at("10.0.0.2:8076"))
	left := make(chan time.Duration)
	go func() { left <- a.quit() }()
	gone := w.until("nobody", patience, named())
	t.Logf("found after %v, gone %v after the order to leave, process over after %v", found, gone, <-left)
	w.quit()
}

// Others have heard it from both addresses, and from its link-local one.
func TestHostThatHasLostAnAddressLeavesAltogether(t *testing.T) {
	const four, six = "10.0.0.2/24", "fd00::2/64"
	for _, lost := range []string{four, six} {
		t.Run(lost, func(t *testing.T) {
			_, robot, pc := pair(t)
			robot.address("eth0", six)
			pc.address("eth0", "fd00::1/64")
			w := startNode(t, pc, watching())
			a := startNode(t, robot, announcing("robot", "a1"))
			w.until("the robot over IPv4 and IPv6", patience, func(ps []Peer) bool {
				r, _ := w.last()
				both := func(p Peer) bool { return len(p.Addrs) == 2 }
				by := func(is4 bool) bool {
					return slices.ContainsFunc(r.Claims, func(p Peer) bool { return both(p) && p.By.Is4() == is4 })
				}
				return by(true) && by(false)
			})
			robot.lose("eth0", lost)
			gone := netip.MustParsePrefix(lost).Addr()
			w.until("what it announces without it", patience, func([]Peer) bool {
				r, _ := w.last()
				return slices.ContainsFunc(r.Claims, func(p Peer) bool { return !p.lists(gone) })
			})
			a.quit()
			w.until("nobody", patience, named())
		})
	}
}

func TestHostThatWasThereFirstIsFound(t *testing.T) {
	_, robot, pc := pair(t)
	first := startNode(t, robot, announcing("robot", "a1"))
	probe := startNode(t, robot, watching())
	probe.until("the announcement on its own host", patience, named("robot"))
	w := startNode(t, pc, watching())
	t.Logf("found after %v", w.until("the robot", patience, at("10.0.0.2:8076")))
	first.kill()
}

func TestAnnouncementCarriesTheWholePeer(t *testing.T) {
	_, robot, pc := pair(t)
	w := startNode(t, pc, watching())
	o := announcing("robot.lab", "a1")
	o.Config.Self.Ports = Ports{SCTP: 9077}
	startNode(t, robot, o)
	w.until("the robot", patience, named("robot.lab"))
	r, _ := w.last()
	got := r.Peers[0]
	got.Addrs = got.Addrs[:1]
	want := o.Config.Self
	want.Addrs, want.Port, want.Source = ports("10.0.0.2:8076"), 8076, sourceMDNS
	want.By, want.life = got.By, 0 // a report does not carry the life
	if !samePeer(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestKilledHostExpiresAndALivingOneDoesNot(t *testing.T) {
	l, robot, pc := pair(t)
	third := l.addHost()
	third.plug("eth0", "sw0", "10.0.0.3/24")
	w := startNode(t, pc, watching())
	short := announcing("robot", "a1")
	short.Config.Life = 2 * time.Second
	dies := startNode(t, robot, short)
	short.Config.Self.Host, short.Config.Self.Node = "arm", node("b1")
	startNode(t, third, short)
	w.until("both", patience, named("arm", "robot"))
	dies.kill()
	t.Logf("gone %v after SIGKILL, life 2s", w.until("only the arm", patience, named("arm")))
	for i, r := range w.history() {
		if i > 1 && !slices.ContainsFunc(r.Peers, func(p Peer) bool { return p.Host == "arm" }) {
			t.Errorf("got table %v, want the living arm in it", r.Peers)
		}
	}
}

func TestRestartAtAnotherPortIsFound(t *testing.T) {
	_, robot, pc := pair(t)
	static := watching()
	static.Peers = []string{"10.0.0.2"}
	w, s := startNode(t, pc, watching()), startNode(t, pc, static)
	o := announcing("robot", "a1")
	old := startNode(t, robot, o)
	w.until("the robot at 8076", patience, at("10.0.0.2:8076"))
	old.kill()
	o.Config.Port = 9000
	startNode(t, robot, o)
	w.until("the robot at 9000 first", patience, at("10.0.0.2:9000"))
	s.until("the robot at 9000 beside the static peer", patience, func(ps []Peer) bool {
		return slices.ContainsFunc(ps, func(p Peer) bool { return p.Node == node("a1") && p.Addrs[0].Port() == 9000 }) &&
			slices.ContainsFunc(ps, func(p Peer) bool { return p.Source == SourceStatic })
	})
}

func TestChannelListChangesAndTheHostStays(t *testing.T) {
	l, robot, pc := pair(t)
	w := startNode(t, pc, watching())
	a := startNode(t, robot, announcing("robot", "a1"))
	w.until("the robot", patience, named("robot"))
	channels := func(want string) func([]Peer) bool {
		return func(ps []Peer) bool {
			if len(ps) != 1 {
				return false
			}
			var got []string
			for _, c := range ps[0].Channels {
				got = append(got, c.Name)
			}
			return strings.Join(got, " ") == want
		}
	}
	counted := l.count("sw0")
	a.announce("joints")
	a.announce("joints camera")
	w.until("the newest list", patience, channels("camera joints"))
	for i, r := range w.history() {
		if i > 0 && len(r.Peers) != 1 {
			t.Errorf("got table %d without the robot: %v", i, r.Peers)
		}
	}
	t.Logf("%d multicast packets until the change was seen", counted())
}

func TestTwoHostsOfOneNameAreBothUsable(t *testing.T) {
	l, robot, pc := pair(t)
	third := l.addHost()
	third.plug("eth0", "sw0", "10.0.0.3/24")
	w := startNode(t, pc, watching())
	both := announcing("krang", "b1")
	both.Watch = true
	high := startNode(t, robot, both)
	both.Config.Self.Node = node("a1")
	low := startNode(t, third, both)
	w.until("both", patience, named("krang", "krang"))
	w.until("each at its own address", patience, func(ps []Peer) bool {
		return len(ps) == 2 && ps[0].Addrs[0] == ports("10.0.0.3:8076")[0] && ps[1].Addrs[0] == ports("10.0.0.2:8076")[0]
	})
	high.until("the other as krang", patience, named("krang"))
	low.until("the other, whose name nothing announced changes", patience, named("krang"))
	if r, _ := high.last(); r.SelfHost != "krang-b1ff" {
		t.Errorf("got %q as its own name, want krang-b1ff", r.SelfHost)
	}
	low.quit()
	w.until("the other alone", patience, func(ps []Peer) bool { return named("krang")(ps) && ps[0].Node == node("b1") })
}

func TestBrowseOnceFindsEverybodyInTime(t *testing.T) {
	l, robot, pc := pair(t)
	third := l.addHost()
	third.plug("eth0", "sw0", "10.0.0.3/24")
	startNode(t, robot, announcing("robot", "a1"))
	startNode(t, third, announcing("arm", "b1"))
	w := startNode(t, pc, watching())
	w.until("both", patience, named("arm", "robot"))
	began := time.Now()
	once := startNode(t, pc, order{Browse: 5 * time.Second})
	once.until("both", patience, named("arm", "robot"))
	t.Logf("browsed in %v", time.Since(began))
	once.quit()
}

func TestBrowseOnceWithoutANetworkSaysSo(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	once := startNode(t, l.addHost(), order{Browse: time.Second})
	<-once.done
	if !strings.Contains(once.end.Err, "no interface is up") || !strings.Contains(once.end.Err, "--peer HOST:PORT") {
		t.Errorf("got %q, want the cause and the cure", once.end.Err)
	}
}

func TestStaticPeerIsResolvedWithoutMulticast(t *testing.T) {
	t.Parallel()
	o := watching()
	o.Config.Interfaces = []string{"no-such-interface"}
	o.Peers = []string{"localhost:9000", "no-such-host.invalid"}
	w := startNode(t, nil, o)
	w.until("localhost with an address, the other without", patience, func(ps []Peer) bool {
		return named("localhost", "no-such-host.invalid")(ps) && len(ps[0].Addrs) > 0 && ps[0].Addrs[0].Port() == 9000 &&
			ps[0].Addrs[0].Addr().IsLoopback() && len(ps[1].Addrs) == 0
	})
	w.quit()
	if text := w.stderr.String(); strings.Count(text, "static peer cannot be resolved") > 1 ||
		!strings.Contains(text, "none of the interfaces no-such-interface is up") {
		t.Errorf("got log %q, want each trouble once", text)
	}
}

func TestLoopbackIsEnoughForOneMachine(t *testing.T) {
	t.Parallel()
	o := announcing("robot", "a1")
	o.Config.Interfaces = []string{"lo"}
	o.Config.Self.Node = node(strings.ReplaceAll(time.Now().Format("150405.000000"), ".", ""))
	ask := watching()
	ask.Config.Interfaces = []string{"lo"}
	w := startNode(t, nil, ask)
	a := startNode(t, nil, o)
	mine := func(ps []Peer) bool {
		return slices.ContainsFunc(ps, func(p Peer) bool { return p.Node == o.Config.Self.Node })
	}
	w.until("the robot on lo", patience, mine)
	a.quit()
	w.until("nobody", patience, func(ps []Peer) bool { return !mine(ps) })
	w.quit()
}
