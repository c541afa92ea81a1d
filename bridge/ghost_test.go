package bridge

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/testnet/need"
)

// said returns a peer as a forged announcement, made without the key, describes it.
func said(host string, id trust.NodeID, at net.Addr) Peer {
	return Peer{Host: host, Node: id.String(), Addrs: []transport.Addrs{{QUIC: at}}, Source: at.(*net.UDPAddr).IP.String()}
}

// rulesByName returns a PC with rules only for krang, and two robots. The robot arm streams imu
// too.
func rulesByName(w *world) (krang, arm, pc *host) {
	w.t.Helper()
	krang, arm, pc = w.host("krang", wire10ms), w.host("arm", wire10ms), w.host("pc", wire10ms)
	for i, h := range []*host{krang, arm} {
		h.run(Config{Mirrors: []rule.Mirror{{Host: "pc", Channel: "plan"}}}, pc)
		h.channel("imu", 16, 100+i).streams(100 + i)
	}
	pc.channel("plan", 16, 64).streams(64)
	pc.run(Config{
		Mirrors: []rule.Mirror{{Host: "krang", Channel: "imu"}},
		Export:  rule.Grants{{Channels: []string{"plan"}, Hosts: []string{"krang"}}},
	})
	return krang, arm, pc
}

// Public facts on the network suffice to announce that arm is krang and krang is not.
func TestRulesIgnoreForgedNames(t *testing.T) {
	inWorld(t, func(w *world) {
		krang, arm, pc := rulesByName(w)
		pc.node.SetPeers([]Peer{
			said("krang", arm.id, arm.addr()),
			said("nobody", krang.id, krang.addr()),
			said("krang", trust.NodeID{1}, elsewhere(1).QUIC),
		})
		pc.freshWithin(3*time.Second, "krang.imu")
		krang.freshWithin(3*time.Second, "pc.plan")
		time.Sleep(10 * time.Second)
		got := linked(pc)
		want := []string{"arm " + arm.id.String(), "krang " + krang.id.String()}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("got links to %v, want %v", got, want)
		}
		if v, err := pc.see("krang.imu"); err != nil || len(v.frame) != 100 {
			t.Errorf("krang.imu: got %+v, %v, want a frame of krang's, of 100 bytes; arm's have 101", v, err)
		}
		if m := arm.mirror("pc.plan"); m.State == status.MirrorLive {
			t.Errorf("arm reads plan, which is for krang: %+v", m)
		}
	})
}

// A forged announcement has the robot's name with a lower id, and another one has the robot under
// another name and address. Then the network is down for longer than the idle timeout of a link.
func TestForgedAnnouncementDoesNotBlockLink(t *testing.T) {
	for what, after := range map[string]func(w *world, robot, pc *host){
		"link is up":       func(*world, *host, *host) {},
		"link was silent":  func(w *world, robot, pc *host) { cutFor(w, 3*time.Second) },
		"link was down":    func(w *world, robot, pc *host) { cutFor(w, 30*time.Second) },
		"was gone long":    func(w *world, robot, pc *host) { cutFor(w, 50*time.Minute) },
		"daemon restarted": func(w *world, robot, pc *host) { robot.stop(); robot.run(robot.cfg) },
		"host restarted":   func(w *world, robot, pc *host) { robot.vanish(); robot.run(robot.cfg) },
	} {
		t.Run(what, func(t *testing.T) {
			if what == "was gone long" {
				need.Long(t)
			}
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				robot.run(Config{})
				pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu"}}})
				robot.channel("imu", 16, 64).streams(64)
				pc.node.SetPeers([]Peer{said("robot", robot.id, robot.addr())})
				pc.freshWithin(time.Second, "robot.imu")
				time.Sleep(settled)
				lies := []Peer{said("robot", trust.NodeID{1}, elsewhere(1).QUIC), said("robot-"+robot.id.String()[:4], robot.id, elsewhere(2).QUIC)}
				pc.node.SetPeers(lies)
				time.Sleep(2 * time.Second)
				after(w, robot, pc)
				t.Logf("fresh after %v", pc.freshWithin(6*time.Second, "robot.imu"))
				if got, want := linked(pc), []string{"robot " + robot.id.String()}; !slices.Equal(got, want) {
					t.Errorf("got links to %v, want %v", got, want)
				}
			})
		})
	}
}

func cutFor(w *world, d time.Duration) {
	w.t.Helper()
	w.change("robot", "cut")
	time.Sleep(d)
	w.change("robot", "up")
}

// A daemon that was restarted under another name has the new name at once, even if its former link
// has not ended.
func TestRenamedHostHasNewNameAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, krang, pc := w.host("robot", wire10ms), w.host("krang", wire10ms), w.host("pc", wire10ms)
		krang.id = robot.id
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "*", Channel: "*"}}})
		robot.run(Config{}, pc)
		robot.channel("imu", 16, 64).streams(64)
		pc.freshWithin(time.Second, "robot.imu")
		time.Sleep(settled)
		w.change("robot", "cut")
		krang.channel("imu", 16, 64).streams(64)
		krang.run(Config{}, pc)
		pc.freshWithin(2*time.Second, "krang.imu")
		time.Sleep(5 * time.Second)
		if got := pc.links(); got != "krang" {
			t.Errorf("got links to %s, want krang", got)
		}
	})
}

// This host counts among those with the same name. The distinct name must not become too long.
func TestPeerWithOurNameIsDisambiguated(t *testing.T) {
	inWorld(t, func(w *world) {
		name := strings.Repeat("k", 63)
		first, second := w.host(name, wire10ms), w.host(name, wire10ms)
		first.id[0], second.id[0] = 1, 2
		second.run(Config{})
		first.run(Config{}, second)
		want := name[:58] + "-" + second.id.String()[:4]
		w.within(time.Second, "links", func() bool { return first.links() == want && second.links() == name })
	})
}
