package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
)

// A path may carry smaller packets than when its link began, for example since traffic goes
// through a tunnel now. Small packets still arrive, so the link is not silent.
func TestMirrorsRecoverFromPMTUBlackHole(t *testing.T) {
	for _, over := range []string{overQUIC, overSCTP} {
		t.Run(over, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				robot.over, pc.over = "auto", "auto"
				robot.run(Config{})
				pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", QoS: rule.QoS{Compress: rule.CompressNone}}}})
				robot.channel("imu", 16, 64).streams(64)
				pc.node.SetPeers([]Peer{robot.asPeer(over)})
				robot.node.SetPeers([]Peer{pc.asPeer("")}) // as from discovery
				camera := robot.channel("camera", 4, 20_000)
				number := uint64(0)
				pc.live(over, time.Second)
				put := func() {
					number++
					camera.put(number, 20_000)
					time.Sleep(50 * time.Millisecond)
				}
				for range 40 {
					put()
				}
				if n, _ := pc.newest("robot.camera"); n < number-1 {
					t.Fatalf("camera before: frame %d of %d", n, number)
				}
				pc.node.SetPeers([]Peer{robot.asPeer("")})
				if err := w.net.Change("", "mtu=700"); err != nil {
					t.Fatal(err)
				}
				last, began := number, time.Now()
				for n := uint64(0); n <= last+5; n, _ = pc.newest("robot.camera") {
					if time.Since(began) > 20*time.Second {
						t.Fatalf("frame %d of %d after %v; link %+v", n, number, time.Since(began), pc.link())
					}
					put()
				}
				t.Logf("mirrored again, over %s, after %v", pc.link().Transport, time.Since(began))
				if most := 4 * time.Second; time.Since(began) > most {
					t.Errorf("mirrored again after %v, want it within %v; pc:\n%s\nrobot:\n%s", time.Since(began), most, pc.log, robot.log)
				}
			})
		})
	}
}

// No new session over QUIC could start on this path, so the link must stay for small frames.
func TestIrreplaceableLinkStaysForSmallFrames(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*", QoS: rule.QoS{Compress: rule.CompressNone}}}})
		robot.channel("imu", 16, 64).streams(64)
		camera := robot.channel("camera", 4, 20_000)
		pc.node.SetPeers([]Peer{robot.asPeer("")})
		pc.live(overQUIC, time.Second)
		if err := w.net.Change("", "mtu=700"); err != nil {
			t.Fatal(err)
		}
		for n := range uint64(80) {
			camera.put(n+1, 20_000)
			time.Sleep(50 * time.Millisecond)
		}
		if up := pc.link().UpS; up < 4 {
			t.Errorf("link up for %.1f s, want the same one", up)
		}
		if _, age := pc.newest("robot.imu"); age > 300*time.Millisecond {
			t.Errorf("imu is %v old, want it fresh", age)
		}
		if n := robot.said("only small packets arrive"); n != 1 {
			t.Errorf("log: got %d lines, want one", n)
		}
	})
}
