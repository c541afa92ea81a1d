package bridge

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/via"
)

// The transports as in scenarios; "auto" means both.
const (
	overQUIC = "quic"
	overSCTP = "sctp"
)

// sockets opens the sockets of h.over. The SCTP port is the one after the QUIC port.
func (h *host) sockets() (quic, sctp net.PacketConn) {
	h.w.t.Helper()
	listen := func(port int) net.PacketConn {
		conn, err := h.net.Listen(port)
		if err != nil {
			h.w.t.Fatal(err)
		}
		if h.socket != nil {
			return h.socket(conn)
		}
		if h.filtered == nil {
			return conn
		}
		return filterConn{conn, h.filtered}
	}
	if h.over != overSCTP {
		quic = listen(port)
	}
	if h.over == overSCTP || h.over == "auto" {
		sctp = listen(port + 1)
	}
	return quic, sctp
}

// filterConn drops packets to a port.
type filterConn struct {
	net.PacketConn
	port *atomic.Int32
}

func (c filterConn) WriteTo(b []byte, to net.Addr) (int, error) {
	if at, err := netip.ParseAddrPort(to.String()); err == nil && int32(at.Port()) == c.port.Load() {
		return len(b), nil
	}
	return c.PacketConn.WriteTo(b, to)
}

// asPeer returns h as other hosts list it, with the addresses of both transports where h may
// listen.
func (h *host) asPeer(over string) Peer {
	sctp := *h.addr().(*net.UDPAddr)
	sctp.Port++
	a := transport.Addrs{QUIC: h.addr(), SCTP: &sctp}
	switch h.over {
	case "", overQUIC:
		a.SCTP = nil
	case overSCTP:
		a.QUIC = nil
	}
	return Peer{Host: h.name, Node: h.id.String(), Addrs: []transport.Addrs{a}, Static: true, Over: via.Kind(over)}
}

// streamingOverBoth returns a robot that streams to a PC, both with both transports. Packets of
// either host to the given port are lost.
func streamingOverBoth(w *world) (robot, pc *host, port *atomic.Int32) {
	w.t.Helper()
	robot, pc, port = w.host("robot", wire10ms), w.host("pc", wire10ms), new(atomic.Int32)
	for _, h := range []*host{robot, pc} {
		h.over, h.filtered = "auto", port
	}
	robot.run(Config{})
	pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}})
	robot.channel("imu", 16, 64).streams(64)
	pc.node.SetPeers([]Peer{robot.asPeer("")})
	return robot, pc, port
}

// live waits until the mirror on pc is fed over a transport.
func (h *host) live(over string, limit time.Duration) time.Duration {
	h.w.t.Helper()
	return h.w.within(limit, "mirror over "+over, func() bool {
		return h.link().Transport == via.Kind(over) && h.link().State == status.LinkUp && h.mirror("robot.imu").State == status.MirrorLive
	})
}

func TestLinkLeavesFilteredTransport(t *testing.T) {
	inWorld(t, func(w *world) {
		_, pc, filtered := streamingOverBoth(w)
		pc.live(overQUIC, time.Second)
		time.Sleep(5 * time.Second)
		filtered.Store(port)
		t.Logf("QUIC filtered: live over SCTP after %v", pc.live(overSCTP, 2*time.Second))
		filtered.Store(port + 1)
		t.Logf("SCTP filtered: live over QUIC after %v", pc.live(overQUIC, 2*time.Second))
	})
}

func TestLinkChangesTransportOnRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, _ := streamingOverBoth(w)
		pc.live(overQUIC, time.Second)
		pc.node.SetPeers([]Peer{robot.asPeer(overSCTP)})
		pc.live(overSCTP, time.Second)
		pc.node.SetPeers([]Peer{robot.asPeer("")})
		time.Sleep(5 * time.Second)
		if got := pc.link().Transport; got != overSCTP {
			t.Errorf("without a listed transport: got %s, want it unchanged", got)
		}
		pc.node.SetPeers([]Peer{robot.asPeer(overQUIC)})
		pc.live(overQUIC, time.Second)
	})
}

// The robot does not know which transport the PC requires, and dials over QUIC as well.
func TestForcedTransportHoldsForBothDiallers(t *testing.T) {
	for _, lower := range []string{"robot", "pc"} {
		t.Run(lower, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				for _, h := range []*host{robot, pc} {
					h.over, h.id[0] = "auto", 2
					if h.name == lower {
						h.id[0] = 1
					}
				}
				robot.run(Config{})
				pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}})
				robot.channel("imu", 16, 64).streams(64)
				robot.node.SetPeers([]Peer{pc.asPeer("")})
				w.within(time.Second, "link over QUIC", func() bool { return robot.link().Transport == overQUIC })
				pc.node.SetPeers([]Peer{robot.asPeer(overSCTP)})
				pc.live(overSCTP, time.Second)
				for range 100 {
					time.Sleep(100 * time.Millisecond)
					if pc.link().Transport != overSCTP || robot.link().Transport != overSCTP {
						t.Fatalf("got links over %q and %q, want sctp for good", pc.link().Transport, robot.link().Transport)
					}
				}
			})
		})
	}
}

func TestSessionOverUnwantedTransportIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		for _, h := range []*host{robot, pc} {
			h.over = "auto"
			h.run(Config{})
		}
		request := robot.asPeer(overSCTP)
		request.Addrs = []transport.Addrs{{QUIC: request.Addrs[0].QUIC}} // so that only the robot dials
		pc.node.SetPeers([]Peer{request})
		robot.node.SetPeers([]Peer{pc.asPeer(overQUIC)})
		w.within(time.Second, "refusal", func() bool {
			return pc.said("must link over another transport") > 0 && robot.said("this node wants the other transport") > 0
		})
		if pc.link().Peer != "" {
			t.Errorf("got link %+v, want none", pc.link())
		}
	})
}

func TestChangedRuleMovesLinkToItsTransport(t *testing.T) {
	all := []rule.Mirror{{Host: "robot", Channel: "*"}}
	for what, cfg := range map[string]Config{
		"mirror": {Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", Over: overSCTP}}},
		"push":   {Mirrors: all, Pushes: rule.Pushes{{Channel: "plan", Host: "robot", Over: overSCTP}}},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, pc, _ := streamingOverBoth(w)
				pc.live(overQUIC, time.Second)
				if err := pc.node.Apply(cfg); err != nil {
					t.Fatal(err)
				}
				pc.live(overSCTP, time.Second)
			})
		})
	}
}
