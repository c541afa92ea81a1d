package discovery

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

func announcing(name, id string) order {
	o := order{Announce: true}
	o.Config.Self = Peer{Host: name, Node: node(id), Network: "11111111", lifetime: time.Minute,
		Channels: []Channel{{"imu", 16, 64}}}
	o.Config.Lifetime, o.Config.Port = time.Minute, 8076
	return o
}

func watching() order {
	o := order{Watch: true}
	o.Config.Self = Peer{Host: "pc", Node: node("99"), Network: "11111111"}
	return o
}

// pair returns two hosts on one switch.
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

func TestGoodbyeRemovesHost(t *testing.T) {
	_, robot, pc := pair(t)
	w := startNode(t, pc, watching())
	a := startNode(t, robot, announcing("robot", "a1"))
	w.waitFor("the robot", at("10.0.0.2:8076"))
	a.quit()
	w.waitFor("nobody", named())
	w.quit()
}

// Other hosts have received its announcements from both addresses and from its link-local one.
func TestGoodbyeAfterLosingAnAddressRemovesHost(t *testing.T) {
	const four, six = "10.0.0.2/24", "fd00::2/64"
	for _, lost := range []string{four, six} {
		t.Run(lost, func(t *testing.T) {
			_, robot, pc := pair(t)
			robot.address("eth0", six)
			pc.address("eth0", "fd00::1/64")
			w := startNode(t, pc, watching())
			a := startNode(t, robot, announcing("robot", "a1"))
			w.waitFor("the robot over IPv4 and IPv6", func(ps []Peer) bool {
				r, _ := w.last()
				both := func(p Peer) bool { return len(p.Addrs) == 2 }
				by := func(is4 bool) bool {
					return slices.ContainsFunc(r.Claims, func(p Peer) bool { return both(p) && p.By.Is4() == is4 })
				}
				return by(true) && by(false)
			})
			robot.lose("eth0", lost)
			gone := netip.MustParsePrefix(lost).Addr()
			w.waitFor("what it announces without it", func([]Peer) bool {
				r, _ := w.last()
				return slices.ContainsFunc(r.Claims, func(p Peer) bool { return !p.lists(gone) })
			})
			a.quit()
			w.waitFor("nobody", named())
		})
	}
}

func TestRestartOnAnotherPortIsFound(t *testing.T) {
	_, robot, pc := pair(t)
	static := watching()
	static.Peers = []string{"10.0.0.2"}
	w, s := startNode(t, pc, watching()), startNode(t, pc, static)
	o := announcing("robot", "a1")
	old := startNode(t, robot, o)
	w.waitFor("the robot at 8076", at("10.0.0.2:8076"))
	old.kill()
	o.Config.Port = 9000
	startNode(t, robot, o)
	w.waitFor("the robot at 9000 first", at("10.0.0.2:9000"))
	s.waitFor("the robot at 9000 and the static peer", func(ps []Peer) bool {
		return slices.ContainsFunc(ps, func(p Peer) bool { return p.Node == node("a1") && p.Addrs[0].Port() == 9000 }) &&
			slices.ContainsFunc(ps, func(p Peer) bool { return p.Source == SourceStatic })
	})
}

// zeroconf sends a goodbye in between. On a busy machine the announcement after it may be too late.
func TestChannelUpdateKeepsHostListed(t *testing.T) {
	need.Long(t)
	l, robot, pc := pair(t)
	w := startNode(t, pc, watching())
	a := startNode(t, robot, announcing("robot", "a1"))
	w.waitFor("the robot", named("robot"))
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
	w.waitFor("the newest list", channels("camera joints"))
	for i, r := range w.history() {
		if i > 0 && len(r.Peers) != 1 {
			t.Errorf("got table %d without the robot: %v", i, r.Peers)
		}
	}
	t.Logf("%d multicast packets until the change was seen", counted())
}

func TestBrowseFindsAllHosts(t *testing.T) {
	l, robot, pc := pair(t)
	third := l.addHost()
	third.plug("eth0", "sw0", "10.0.0.3/24")
	startNode(t, robot, announcing("robot", "a1"))
	startNode(t, third, announcing("arm", "b1"))
	w := startNode(t, pc, watching())
	w.waitFor("both", named("arm", "robot"))
	await.NoError(t, func() error { // on a busy machine the second answer may arrive after Browse has ended
		once := startNode(t, pc, order{Browse: await.Limit})
		<-once.done
		if r, _ := once.last(); !named("arm", "robot")(r.Peers) {
			return fmt.Errorf("got %v, want both", r.Peers)
		}
		return nil
	})
}

func TestBrowseWithoutNetworkFails(t *testing.T) {
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
	w.waitFor("localhost with an address, the other without", func(ps []Peer) bool {
		return named("localhost", "no-such-host.invalid")(ps) && len(ps[0].Addrs) > 0 && ps[0].Addrs[0].Port() == 9000 &&
			ps[0].Addrs[0].Addr().IsLoopback() && len(ps[1].Addrs) == 0
	})
	w.quit()
	if text := w.stderr.String(); strings.Count(text, "static peer cannot be resolved") > 1 ||
		!strings.Contains(text, "none of the interfaces no-such-interface is up") {
		t.Errorf("got log %q, want each trouble once", text)
	}
}

func TestDiscoveryWorksOverLoopbackOnly(t *testing.T) {
	t.Parallel()
	o := announcing("robot", "a1")
	o.Config.Interfaces = []string{"lo"}
	o.Config.Self.Node = node(fmt.Sprintf("%016x", rand.Uint64())) // other processes may announce themselves on the loopback interface
	ask := watching()
	ask.Config.Interfaces = []string{"lo"}
	w := startNode(t, nil, ask)
	a := startNode(t, nil, o)
	mine := func(ps []Peer) bool {
		return slices.ContainsFunc(ps, func(p Peer) bool { return p.Node == o.Config.Self.Node })
	}
	w.waitFor("the robot on lo", mine)
	a.quit()
	w.waitFor("nobody", func(ps []Peer) bool { return !mine(ps) })
	w.quit()
}
