package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
)

// A program with write access to a channel's header can make its frame numbers jump, on purpose or
// by accident.
func TestLostShareRecoversFromSequenceNumberJump(t *testing.T) {
	for _, mode := range []rule.Mode{rule.Newest, rule.Every} {
		t.Run(mode.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
				file := robot.forge("imu", 16, 64)
				robot.run(Config{})
				cfg := Config{Mirrors: rule.Mirrors{{Host: "robot", Channel: "imu", QoS: rule.QoS{Mode: mode}}}}
				pc.run(cfg, robot)
				stream := func(long time.Duration) {
					for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
						file.claim(64)
					}
				}
				stream(5 * time.Second)
				file.seq += 1e12
				stream(5 * time.Second)
				if m := pc.mirror("robot.imu"); m.Offered < 1e12 {
					t.Fatalf("got %+v, want the frames that were skipped", m.FrameCounters)
				}
				stream(10 * time.Second)
				m := pc.mirror("robot.imu")
				if m.LostShare == nil {
					t.Fatalf("got no lost share of %+v", m.FrameCounters)
				}
				if *m.LostShare > 0.01 {
					t.Errorf("lost share: got %v of %+v, want that of the last ten seconds", *m.LostShare, m.FrameCounters)
				}
			})
		})
	}
}
