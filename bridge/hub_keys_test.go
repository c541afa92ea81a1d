package bridge

import (
	"crypto/rand"
	"testing"
	"time"

	"achbridge/bridge/hubway"
	"achbridge/bridge/rule"
	"achbridge/bridge/seal"
	"achbridge/bridge/status"
	"achbridge/testnet"
)

// hubThree returns a robot at a hub whose channels pc and far read.
func (w *world) hubThree(qos rule.QoS, a ...func(*host)) (hub *worldHub, robot, pc, far *host) {
	hub = newWorldHub(w, hubMaxFrame)
	robot, pc, far = w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{}), w.host("far", testnet.Params{})
	for _, change := range a {
		change(robot)
		change(pc)
		change(far)
	}
	robot.atHub(hub, Config{})
	pc.atHub(hub, mirrorAll(qos), "robot")
	far.atHub(hub, mirrorAll(qos), "robot")
	return hub, robot, pc, far
}

// hubThreeWithIMU is like hubThree, and returns when both readers have one frame of the robot's imu.
func (w *world) hubThreeWithIMU() (hub *worldHub, robot, pc, far *host, imu *channel) {
	hub, robot, pc, far = w.hubThree(rule.QoS{})
	imu = robot.channel("imu", 16, 64)
	imu.put(1, 64)
	pc.follows("robot.imu", 1, 4*time.Second)
	far.follows("robot.imu", 1, 4*time.Second)
	time.Sleep(time.Second)
	return hub, robot, pc, far, imu
}

// Sessions check frames with the certificate that the origin had when they began.
func TestRenewedCertificateKeepsMirrors(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.authority()
		_, robot, pc, far := w.hubThree(rule.QoS{}, func(h *host) { h.issued(a) })
		robot.channel("imu", 16, 64).streams(64)
		pc.freshWithin(4*time.Second, "robot.imu")
		far.freshWithin(4*time.Second, "robot.imu")
		time.Sleep(2 * time.Second)
		key, err := a.Issue("robot", time.Now())
		if err == nil {
			err = robot.node.cfg.Endpoint.SetKey(key)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		far.stop() // the origin then makes a new key
		time.Sleep(time.Second)
		pc.freshWithin(100*time.Millisecond, "robot.imu")
		far.run(far.cfg)
		far.knows([]string{"robot"})
		far.freshWithin(3*time.Second, "robot.imu")
		if count := pc.forgeries() + far.forgeries(); count > 0 {
			t.Errorf("%d frames of the robot passed for forged ones", count)
		}
	})
}

// The key of a command channel goes to only one receiver, even if a reader becomes a receiver of
// commands later.
func TestSecondReaderCannotBecomeCommandReceiver(t *testing.T) {
	inWorld(t, func(w *world) {
		_, robot, pc, far := w.hubThree(rule.QoS{})
		robot.channel("goal", 16, 64).streams(64)
		pc.freshWithin(4*time.Second, "robot.goal")
		far.freshWithin(4*time.Second, "robot.goal")
		if err := far.node.Apply(mirrorAll(rule.QoS{Class: rule.Command, Budget: 200 * time.Millisecond})); err != nil {
			t.Fatal(err)
		}
		w.within(time.Second, "the refusal", func() bool { return far.mirror("robot.goal").State == status.MirrorRefused })
		if m := far.mirror("robot.goal"); !contains(m.Reason, "commands go to one receiver") {
			t.Errorf("got %+v, want that commands go to one receiver", m)
		}
		pc.freshWithin(100*time.Millisecond, "robot.goal")
	})
}

// When the frame reaches the hub, no reader has its key any more.
func TestNewestFrameIsPublishedUnderNewKey(t *testing.T) {
	inWorld(t, func(w *world) {
		hub, robot, pc, far, imu := w.hubThreeWithIMU()
		hub.tap("robot", func(t *hubTap) { t.delay = func() { time.Sleep(300 * time.Millisecond) } })
		imu.put(2, 64)
		time.Sleep(100 * time.Millisecond)
		if err := robot.node.Apply(Config{Export: rule.Grants{{Channels: []string{"*"}, Hosts: []string{"pc"}}}}); err != nil {
			t.Fatal(err)
		}
		pc.follows("robot.imu", 2, 2*time.Second)
		time.Sleep(3 * time.Second)
		if number, _ := far.newest("robot.imu"); number != 1 {
			t.Errorf("far has frame %d, which was put after it lost the permission", number)
		}
		wantClosed(t, pc, robot)
	})
}

// The newest frame of an idle channel may arrive before its key, and after forged frames.
func TestNewestFrameIsFoundAfterForgedFrames(t *testing.T) {
	inWorld(t, func(w *world) {
		hub, robot, pc, far, imu := w.hubThreeWithIMU()
		hub.lies(func(reader, _ string, b []byte) (list [][]byte) {
			if reader == "pc" {
				for range 10 {
					bad := append([]byte(nil), b...)
					rand.Read(bad[2:10]) // the key's id
					list = append(list, bad)
				}
			}
			return append(list, b)
		})
		hub.Deceive(testnet.Deceit{Streams: testnet.Delays, By: 200 * time.Millisecond}) // the key arrives after the frame
		far.stop()
		w.within(time.Second, "the end of far", func() bool { return len(robot.node.Status().Exports) == 1 })
		imu.put(2, 64)
		pc.follows("robot.imu", 2, time.Second)
	})
}

// countKeys counts the keys that seal the frames delivered to readers from now on.
func (h *worldHub) countKeys() func() int {
	count, last := 0, ""
	h.lies(func(_, _ string, b []byte) [][]byte {
		if id := string(b[2:10]); id != last {
			count, last = count+1, id
		}
		return [][]byte{b}
	})
	return func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return count
	}
}

func TestRevokedPermissionChangesHubKey(t *testing.T) {
	inWorld(t, func(w *world) {
		hub, robot, pc, far := w.hubThree(rule.QoS{})
		keys := hub.countKeys()
		robot.channel("imu", 16, 64).streams(64)
		pc.freshWithin(4*time.Second, "robot.imu")
		far.freshWithin(4*time.Second, "robot.imu")
		time.Sleep(time.Second)
		before := keys()
		if err := robot.node.Apply(Config{Export: rule.Grants{{Channels: []string{"*"}, Hosts: []string{"pc"}}}}); err != nil {
			t.Fatal(err)
		}
		number, _ := far.newest("robot.imu")
		time.Sleep(time.Second)
		if got := keys() - before; got != 1 {
			t.Errorf("got %d keys after the permission was taken back, want one", got)
		}
		if after, _ := far.newest("robot.imu"); after > number+20 {
			t.Errorf("the reader without permission went from frame %d to %d, want no further frame", number, after)
		}
		pc.freshWithin(100*time.Millisecond, "robot.imu")
	})
}

func TestRevokedCertificateChangesHubKey(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.authority()
		hub, robot, pc, thief := w.hubThree(rule.QoS{}, func(h *host) { h.issued(a) })
		keys := hub.countKeys()
		robot.channel("imu", 16, 64).streams(64)
		thief.freshWithin(4*time.Second, "robot.imu")
		pc.freshWithin(4*time.Second, "robot.imu")
		time.Sleep(time.Second)
		before := keys()
		if _, err := robot.node.cfg.Endpoint.Revoke(w.revoked(a, 1, thief).Bytes()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		if got := keys() - before; got != 1 {
			t.Errorf("got %d new keys, want one", got)
		}
		time.Sleep(time.Second)
		if links := thief.links(); links != "" {
			t.Errorf("the thief has links with %s", links)
		}
		pc.freshWithin(100*time.Millisecond, "robot.imu")
	})
}

// A virtual machine that is restored from a snapshot reuses the same counters with the same keys.
func TestWallClockStepRenewsHubKeys(t *testing.T) {
	inWorld(t, func(w *world) {
		_, robot, pc, far, imu := w.hubThreeWithIMU()
		step := func(by time.Duration) (before, after seal.ID) {
			key := func() (id seal.ID) {
				robot.node.loop.call(func() {
					key, _, _ := robot.node.shared.publishers.Key("imu")
					id = seal.ID(key.KeyID)
				})
				return id
			}
			before = key()
			robot.node.loop.call(func() { robot.node.clocks.wall.wall -= by }) // as if the wall clock had been set since the last check
			time.Sleep(2 * tick)
			return before, key()
		}
		if before, after := step(hubway.RekeyStep); before != after {
			t.Errorf("a step of %v: got another key", hubway.RekeyStep)
		}
		for i, by := range []time.Duration{hubway.RekeyStep + time.Millisecond, -time.Hour} {
			if before, after := step(by); before == after {
				t.Errorf("a step of %v: got the same key", by)
			}
			imu.put(uint64(2+i), 64)
			pc.follows("robot.imu", uint64(2+i), 2*time.Second)
			far.follows("robot.imu", uint64(2+i), 2*time.Second)
		}
		if count := pc.forgeries() + far.forgeries(); count > 0 {
			t.Errorf("%d frames of the robot passed for forged ones", count)
		}
	})
}
