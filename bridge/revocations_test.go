package bridge

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/trust"
	"achbridge/wire"
)

// issued gives a host its own certificate.
func (h *host) issued(a trust.Authority) *host {
	h.w.t.Helper()
	key, err := a.Issue(h.name, time.Now())
	if err != nil {
		h.w.t.Fatal(err)
	}
	h.key, h.id = key, key.Node()
	return h
}

func (w *world) authority() trust.Authority {
	w.t.Helper()
	a, err := trust.NewAuthority(time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) revoked(a trust.Authority, number uint64, hosts ...*host) *trust.Revocations {
	w.t.Helper()
	var serials []string
	for _, h := range hosts {
		serials = append(serials, h.key.Serial())
	}
	list, err := a.Revoke(number, serials, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// links returns the hosts that h is linked with.
func (h *host) links() string {
	var names []string
	for _, l := range h.node.Status().Links {
		names = append(names, l.Peer)
	}
	return strings.Join(names, " ")
}

// The operator gives the list to one host. The thief is linked to another, which has no link with
// the first.
func TestRevocationReachesEveryNode(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.authority()
		robot, pc := w.host("robot", wire10ms).issued(a), w.host("pc", wire10ms).issued(a)
		far, thief := w.host("far", wire10ms).issued(a), w.host("thief", wire10ms).issued(a)
		robot.run(Config{})
		pc.run(Config{}, robot)
		far.run(Config{}, pc)
		thief.run(Config{}, far)
		w.within(5*time.Second, "links", func() bool { return strings.Contains(far.links(), "thief") && strings.Contains(pc.links(), "robot") })
		if taken, err := robot.node.cfg.Endpoint.Revoke(w.revoked(a, 4, thief).Bytes()); !taken || err != nil {
			t.Fatalf("revoke: got %v, %v", taken, err)
		}
		w.within(10*time.Second, "the end of the thief's link", func() bool { return far.links() == "pc" })
		time.Sleep(10 * time.Second)
		if got := far.links(); got != "pc" {
			t.Errorf("links: got %q, want pc alone", got)
		}
		if got := pc.links(); !strings.Contains(got, "robot") || !strings.Contains(got, "far") {
			t.Errorf("links: got %q, want robot and far", got)
		}

		late := w.host("late", wire10ms).issued(a).run(Config{}, far) // gets the list when it links
		w.within(5*time.Second, "the list", func() bool { return late.node.cfg.Endpoint.Revocations().Number() == 4 })
	})
}

func TestForgedRevocationsEndTheLink(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.authority()
		robot := w.host("robot", wire10ms).issued(a).run(Config{})
		pc := w.host("pc", wire10ms).issued(a).run(Config{}, robot)
		w.within(5*time.Second, "a link", func() bool { return pc.links() == "robot" })
		forged := w.revoked(w.authority(), 9, robot).Bytes()
		pc.node.loop.call(func() {
			for _, l := range pc.node.links {
				l.send(wire.Revocations{List: forged})
			}
		})
		w.within(time.Second, "the reason", func() bool { return strings.Contains(pc.log.String(), "not signed by our authority") })
		if got := robot.node.cfg.Endpoint.Revocations().Number(); got != 0 {
			t.Errorf("list: got number %d, want none", got)
		}
	})
}

// Discovery's name of a node is unproven; the name in its certificate takes precedence.
func TestCertificateNameOverridesDiscovery(t *testing.T) {
	for name, bind := range map[string]bool{"certificate": true, "shared key": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				if bind {
					a := w.authority()
					robot.issued(a)
					pc.issued(a)
				}
				robot.run(Config{})
				pc.run(Config{})
				listed := asPeers([]*host{robot})
				listed[0].Host = "boss"
				pc.node.SetPeers(listed)
				w.within(5*time.Second, "a link", func() bool { return pc.links() != "" })
				if got := pc.links(); got != "robot" {
					t.Errorf("peer: got %s, want robot", got)
				}
			})
		})
	}
}

func TestHostWithNewNodeIDIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		pc.run(Config{}, robot)
		const warning = "host name is used by another node than before"
		w.within(5*time.Second, "a link", func() bool { return pc.links() != "" })
		if strings.Contains(pc.log.String(), warning) {
			t.Error("reported at once")
		}
		robot.stop()
		robot.run(Config{}, pc)
		w.within(10*time.Second, "a link", func() bool { return pc.links() == "robot" })
		if strings.Contains(pc.log.String(), warning) {
			t.Error("reported though it is the same node")
		}
		robot.stop()
		robot.id[15] = 77
		robot.run(Config{}, pc)
		w.within(10*time.Second, "the report", func() bool { return strings.Contains(pc.log.String(), warning) })
	})
}
