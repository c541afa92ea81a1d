package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet"
)

// Each end counts the packets that the path loses and the data that it carries.
func TestLinkCountsLossAndTraffic(t *testing.T) {
	const frames, size = 2000, 200
	for _, c := range []struct {
		name   string
		link   testnet.Params
		lost   float64 // share
		within float64
	}{
		{"good", wire10ms, 0, 0},
		{"loses a fifth", lossy(wire10ms, 0.2), 0.2, 0.05},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", c.link), w.host("pc", wire10ms)
				robot.run(Config{})
				pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}, robot)
				imu := robot.channel("imu", 64, size)
				w.within(5*time.Second, "link", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
				for i := range uint64(frames) {
					imu.put(i+1, size)
					time.Sleep(5 * time.Millisecond)
				}
				time.Sleep(time.Second)
				out, in := robot.node.Status().Links[0], pc.node.Status().Links[0]
				sent := float64(out.Lost) / float64(out.Sent)
				came := float64(in.Missed) / float64(in.Missed+in.Received)
				for what, got := range map[string]float64{"as the robot counts": sent, "as the PC counts": came} {
					if got < c.lost-c.within || got > c.lost+c.within {
						t.Errorf("lost, %s: got %.3f, want %.2f ± %.2f", what, got, c.lost, c.within)
					}
				}
				if least := frames * size * (1 - 2*c.lost); float64(out.SentBytes) < least {
					t.Errorf("got %d bytes sent for %d frames of %d, want %.0f at least", out.SentBytes, frames, size, least)
				}
				if want := float64(out.SentBytes) * (1 - c.lost); float64(in.ReceivedBytes) < want*0.95 || float64(in.ReceivedBytes) > want*1.05+1000 {
					t.Errorf("got %d bytes received, want %.0f", in.ReceivedBytes, want)
				}
				m := pc.mirror("robot.imu")
				if m.Bytes != size || m.OneWayDelayMs == nil || *m.OneWayDelayMs < 10 || c.lost == 0 && *m.OneWayDelayMs > 13 {
					t.Errorf("the last frame: got %+v, want %d bytes and little over 10 ms", m, size)
				}
			})
		})
	}
}

func lossy(p testnet.Params, share float64) testnet.Params {
	p.Loss = share
	return p
}

// Frames wait for the path only while it is full.
func TestLinkReportsShareOfTimeFull(t *testing.T) {
	for _, c := range []struct {
		name        string
		rate        string
		least, most float64 // share of the time
	}{
		{"wide", "100mbit", 0, 0.05},
		{"narrow", "1mbit", 0.8, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				link, err := testnet.ParseParams("delay=10ms,queue=64KiB,rate=" + c.rate)
				if err != nil {
					t.Fatal(err)
				}
				robot, pc := w.host("robot", link), w.host("pc", link)
				robot.run(Config{})
				pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}, robot)
				imu := robot.channel("imu", 64, 1000)
				w.within(5*time.Second, "link", func() bool { return pc.mirror("robot.imu").State == status.MirrorLive })
				var before float64
				for i := range uint64(2000) { // 4 Mbit/s
					if i == 1000 {
						before = robot.node.Status().Links[0].FullS
					}
					imu.put(i+1, 1000)
					time.Sleep(2 * time.Millisecond)
				}
				share := (robot.node.Status().Links[0].FullS - before) / 2
				if share < c.least || share > c.most {
					t.Errorf("full: got %.2f of the time, want %.2f to %.2f", share, c.least, c.most)
				}
			})
		})
	}
}
