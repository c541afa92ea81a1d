package bridge

import (
	"sync"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet"
	"achbridge/testnet/need"
)

// streams puts frames of size bytes every 5 ms until the test ends.
func (c *channel) streams(size int) {
	stop := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for i := uint64(1); ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				c.put(i, size)
			}
		}
	})
	c.t.Cleanup(func() {
		close(stop)
		work.Wait()
	})
}

// freshWithin waits until a channel of the host holds a frame that is within the default budget.
func (h *host) freshWithin(limit time.Duration, name string) time.Duration {
	h.w.t.Helper()
	return h.w.within(limit, "a fresh frame in "+h.name+"'s "+name, func() bool {
		n, age := h.newest(name)
		return n > 0 && age <= 100*time.Millisecond
	})
}

func (w *world) change(target, text string) {
	w.t.Helper()
	if err := w.net.Change(target, text); err != nil {
		w.t.Fatal(err)
	}
}

// vanish ends the host's node as SIGKILL would, so that no peer receives a Bye.
func (h *host) vanish() {
	h.w.t.Helper()
	h.w.change(h.name, "cut")
	h.stop()
	time.Sleep(100 * time.Millisecond) // the last messages are lost by then
	h.w.change(h.name, "up")
}

// streaming returns a PC that mirrors a robot's stream, when the mirror is live. start decides
// which host dials.
func (w *world) streaming(start func(robot, pc *host), size int) (robot, pc *host) {
	robot, pc = w.host("robot", wire10ms), w.host("pc", wire10ms)
	start(robot, pc)
	robot.channel("imu", 16, size).streams(size)
	pc.freshWithin(10*time.Second, "robot.imu")
	time.Sleep(settled)
	return robot, pc
}

var diallers = map[string]func(robot, pc *host){"PC dials": pcDials, "robot dials": robotDials, "both dial": bothDial}

var allOfTheRobot = Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}

func pcDials(robot, pc *host) {
	robot.run(Config{})
	pc.run(allOfTheRobot, robot)
}

func robotDials(robot, pc *host) {
	pc.run(allOfTheRobot)
	robot.run(Config{}, pc)
}

func bothDial(robot, pc *host) {
	pc.run(allOfTheRobot, robot)
	robot.run(Config{}, pc)
}

// A session survives a cut that is shorter than its idle timeout, and its probes find the path
// again. After a longer cut the peer is dialled. The delay then depends on the longest back-off
// and on the retransmission of unanswered handshakes.
func TestMirrorIsFreshSoonAfterAnOutage(t *testing.T) {
	limits := map[time.Duration]time.Duration{
		time.Second:      150 * time.Millisecond,
		9 * time.Second:  150 * time.Millisecond,
		30 * time.Second: 2 * time.Second,
	}
	if need.IsLong() {
		limits[100*time.Millisecond] = 150 * time.Millisecond
		limits[3*time.Second] = 150 * time.Millisecond
		limits[5*time.Minute] = 5 * time.Second
	}
	for outage, limit := range limits {
		for who, start := range diallers {
			for what, size := range map[string]int{"small": 64, "packet": 1000, "parts": 20_000} {
				if size > 64 && (who != "PC dials" || outage > 10*time.Second) {
					continue
				}
				t.Run(outage.String()+", "+who+", "+what, func(t *testing.T) {
					inWorld(t, func(w *world) {
						robot, pc := w.streaming(start, size)
						ups := robot.said("link up") + pc.said("link up")
						w.change("robot", "cut")
						time.Sleep(outage)
						w.change("robot", "up")
						t.Logf("fresh again after %v", pc.freshWithin(limit, "robot.imu"))
						time.Sleep(time.Second)
						if now := robot.said("link up") + pc.said("link up"); now != ups && outage < 10*time.Second {
							t.Errorf("got %d new links, want the former one kept", now-ups)
						}
						w.within(time.Second, "both ends up, and the mirror live", func() bool { // the other host's dial may have just won
							return robot.link().State == status.LinkUp && pc.link().State == status.LinkUp && pc.mirror("robot.imu").State == status.MirrorLive
						})
					})
				})
			}
		}
	}
}

// The few packets that arrive over a cut path do not show its rate. The first ones after the cut
// may be late as in a queue. Over SCTP only the pacer can know this, since its window never holds
// frames back.
func TestCutPathIsNotMistakenForSlowPath(t *testing.T) {
	measured(t)
	inWorld(t, func(w *world) {
		trembling := testnet.Params{Delay: 10 * time.Millisecond, Jitter: 6 * time.Millisecond}
		robot, pc := w.host("robot", trembling), w.host("pc", trembling)
		robot.over, pc.over = overSCTP, overSCTP
		robot.run(Config{})
		pc.run(allOfTheRobot)
		pc.node.SetPeers([]Peer{robot.asPeer("")})
		robot.channel("imu", 16, 3000).streams(3000)
		pc.freshWithin(10*time.Second, "robot.imu")
		time.Sleep(settled)
		for range need.LongOr(8, 2) {
			w.change("robot>pc", "cut")
			time.Sleep(time.Second)
			w.change("robot>pc", "up")
			t.Logf("fresh again after %v", pc.freshWithin(150*time.Millisecond, "robot.imu"))
			time.Sleep(2 * time.Second)
		}
	})
}

// The end that receives nothing, or gets no answer, detects it; the other end continues. No
// handshake can complete. When the path works again, no handshake is needed.
func TestOneWayCutKeepsLink(t *testing.T) {
	for way, fed := range map[string]bool{"robot>pc": false, "pc>robot": true} {
		for who, start := range diallers {
			t.Run(way+", "+who, func(t *testing.T) {
				inWorld(t, func(w *world) {
					robot, pc := w.streaming(start, 64)
					ups := robot.said("link up") + pc.said("link up")
					w.change(way, "cut")
					w.within(time.Second, "silence", func() bool { return robot.link().State == status.LinkSilent })
					time.Sleep(2 * time.Second)
					if m := pc.mirror("robot.imu"); (m.State == status.MirrorLive) != fed || (*m.AgeMs < 200) != fed {
						t.Errorf("got mirror %+v of age %v ms, want it fed: %v", m, *m.AgeMs, fed)
					}
					w.change(way, "up")
					pc.freshWithin(150*time.Millisecond, "robot.imu")
					time.Sleep(5 * time.Second)
					if now := robot.said("link up") + pc.said("link up"); now != ups {
						t.Errorf("got %d new links, want the former one kept", now-ups)
					}
				})
			})
		}
	}
}

// The packets of the same node in a new process show that it does not know the link, whichever
// host dials.
func TestMirrorFollowsRestartedPeerAtOnce(t *testing.T) {
	for who, start := range diallers {
		t.Run(who, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.streaming(start, 64)
				robot.vanish()
				robot.run(robot.cfg, robot.dials...)
				t.Logf("followed after %v", pc.freshWithin(time.Second, "robot.imu"))
			})
		})
	}
}
