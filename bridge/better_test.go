package bridge

import (
	"net"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/testnet"
)

// twoWays is the socket of a host with two network interfaces. It sends through the second one to
// addresses for which isSecond is true.
type twoWays struct {
	net.PacketConn // the first interface
	second         net.PacketConn
	isSecond       func(net.Addr) bool
	read           chan packetRead
	reading        sync.Once
}

type packetRead struct {
	data []byte
	from net.Addr
	err  error
}

func (c *twoWays) ReadFrom(b []byte) (int, net.Addr, error) {
	c.reading.Do(func() {
		for _, conn := range []net.PacketConn{c.PacketConn, c.second} {
			go func() {
				for {
					buf := make([]byte, 2048)
					n, from, err := conn.ReadFrom(buf)
					c.read <- packetRead{buf[:n], from, err}
					if err != nil {
						return
					}
				}
			}()
		}
	})
	r := <-c.read
	return copy(b, r.data), r.from, r.err
}

func (c *twoWays) WriteTo(b []byte, to net.Addr) (int, error) {
	if c.isSecond(to) {
		return c.second.WriteTo(b, to)
	}
	return c.PacketConn.WriteTo(b, to)
}

func (c *twoWays) SetReadDeadline(t time.Time) error {
	c.second.SetReadDeadline(t)
	return c.PacketConn.SetReadDeadline(t)
}

func (c *twoWays) Close() error {
	c.second.Close()
	return c.PacketConn.Close()
}

// radios gives a robot and a PC a second interface each, connected by a slow radio. It returns the
// robot's address on the radio.
func (w *world) radios(robot, pc *host, link testnet.Params) net.Addr {
	theirs, ours := w.host("robotradio", link), w.host("pcradio", wire10ms)
	for h, second := range map[*host]*host{robot: theirs, pc: ours} {
		other := map[*host]*host{robot: ours, pc: theirs}[h]
		h.socket = func(first net.PacketConn) net.PacketConn {
			conn, err := second.net.Listen(port)
			if err != nil {
				w.t.Fatal(err)
			}
			is := func(to net.Addr) bool { return to.(*net.UDPAddr).IP.Equal(other.addr().(*net.UDPAddr).IP) }
			return &twoWays{PacketConn: first, second: conn, isSecond: is, read: make(chan packetRead, 64)}
		}
	}
	return theirs.addr()
}

// While the cable is unplugged for some seconds, the nodes link over the radio.
func TestLinkReturnsToFasterPath(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		radio := w.radios(robot, pc, testnet.Params{Delay: 100 * time.Millisecond})
		robot.run(Config{})
		imu := robot.channel("imu", 16, 64)
		imu.streams(64)
		odometry := robot.channel("odometry", 64, 64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu"}, {Host: "robot", Channel: "odometry", QoS: rule.QoS{Mode: rule.Every}}}})
		peers := asPeers([]*host{robot})
		peers[0].Addrs = append(peers[0].Addrs, transport.Addrs{QUIC: radio})
		pc.node.SetPeers(peers)
		pc.freshWithin(2*time.Second, "robot.imu")
		if at := pc.linkedAt(); at != robot.addr().String() {
			t.Fatalf("the link is at %s, want the cable, %v", at, robot.addr())
		}
		w.change("robot", "cut")
		w.within(10*time.Second, "a link over the radio", func() bool { return pc.linkedAt() == radio.String() })
		w.change("robot", "up")
		told := false
		for number := uint64(1); pc.linkedAt() != robot.addr().String(); number++ {
			if number > 3000 {
				t.Fatal("after 30 s the link is still over the radio")
			}
			odometry.put(number, 64)
			time.Sleep(10 * time.Millisecond)
			links := pc.node.Status().Links
			told = told || len(links) == 1 && links[0].OtherWay != ""
		}
		if !told {
			t.Error("got no status of the faster path, want one")
		}
		time.Sleep(2 * time.Second)
		pc.freshWithin(0, "robot.imu")
		if m := pc.mirror("robot.odometry"); m.Delivered != odometry.ch.LastSeq() || m.Delivered != m.Offered {
			t.Errorf("mode every: got %+v of %d frames, want each once", m.FrameCounters, odometry.ch.LastSeq())
		}
		up := pc.node.Status().Links[0].UpS
		time.Sleep(3 * time.Minute)
		if links := pc.node.Status().Links; links[0].UpS < up+170 {
			t.Errorf("the link moved again, %.0f s ago", links[0].UpS)
		}
	})
}

// An address that was announced for a host may belong to another host.
func TestStandbyRejectsAddressOfOtherHost(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, other, pc := w.host("robot", testnet.Params{Delay: 100 * time.Millisecond}), w.host("other", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		other.run(Config{})
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}, robot)
		w.within(2*time.Second, "a link", func() bool { return pc.links() != "" })
		pc.knowsBoth(robot, other)
		for range 60 {
			time.Sleep(500 * time.Millisecond)
			spares := 0
			pc.node.loop.call(func() { spares = len(pc.node.spares) })
			if spares > 0 || pc.linkedAt() != robot.addr().String() {
				t.Fatalf("got %d standbys and a link at %s, want only the robot's link", spares, pc.linkedAt())
			}
		}
	})
}

// A command that is put during the move would not be sent.
func TestLinkWithCommandsDoesNotMove(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		radio := w.radios(robot, pc, testnet.Params{Delay: 100 * time.Millisecond})
		robot.run(Config{Accept: goalRules()})
		pc.channel("goal", 8, 64)
		pc.run(Config{Pushes: rule.Pushes{{Channel: "goal", Host: "robot"}}})
		peers := asPeers([]*host{robot})
		peers[0].Addrs = []transport.Addrs{{QUIC: radio}}
		pc.node.SetPeers(peers)
		w.within(5*time.Second, "the push", func() bool { return robot.mirror("goal").State == status.MirrorLive })
		peers[0].Addrs = append(peers[0].Addrs, transport.Addrs{QUIC: robot.addr()})
		pc.node.SetPeers(peers)
		time.Sleep(3 * time.Minute)
		if at := pc.linkedAt(); at != radio.String() {
			t.Errorf("the link is at %s", at)
		}
	})
}

// An attacker may announce a faster route and cut it once the link has moved.
func TestFailedPathIsAvoidedForHalfAnHour(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		radio := w.radios(robot, pc, testnet.Params{Delay: 100 * time.Millisecond})
		robot.run(Config{})
		pc.run(allOfTheRobot)
		peers := asPeers([]*host{robot})
		peers[0].Addrs = []transport.Addrs{{QUIC: radio}}
		pc.node.SetPeers(peers)
		w.within(5*time.Second, "a link over the radio", func() bool { return pc.linkedAt() == radio.String() })
		peers[0].Addrs = append(peers[0].Addrs, transport.Addrs{QUIC: robot.addr()})
		pc.node.SetPeers(peers)
		w.within(time.Minute, "a link over the cable", func() bool { return pc.linkedAt() == robot.addr().String() })
		w.change("robot", "cut")
		w.within(10*time.Second, "a link over the radio", func() bool { return pc.linkedAt() == radio.String() })
		w.change("robot", "up")
		time.Sleep(time.Hour / 2)
		if at := pc.linkedAt(); at != radio.String() {
			t.Errorf("after half an hour the link is at %s, want it at the radio", at)
		}
		w.within(time.Hour, "a link over the cable", func() bool { return pc.linkedAt() == robot.addr().String() })
	})
}
