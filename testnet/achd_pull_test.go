package testnet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// A daemon mirrors what another serves by achd's protocol, over a link that loses packets and is cut for a while: over
// TCP every frame of mode every comes, in order, but for those of the cut; over UDP none comes twice or out of
// order, and hardly more are missing than are lost. Frames of 1 kB at 20 Hz, 10 ms there and back.
func TestHostWithAchdIsMirroredOverALossyLink(t *testing.T) {
	need.Long(t)
	s := newSite(t, "robot", "pc")
	file := filepath.Join(t.TempDir(), "robot.yaml")
	if err := os.WriteFile(file, []byte("achd: {from: [0.0.0.0/0], channels: [imu]}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.publish("robot", "imu:20:1024")
	s.run("robot", "--config", file, "--achd", ":8076").awaitLog("msg=running")
	s.link("robot", "loss=2%")
	daemon := s.run("pc", "--mirror", "achd://"+s.addr("robot")+"/imu,as=tcp,mode=every", "--mirror", "achd+udp://"+s.addr("robot")+"/imu,as=udp")
	daemon.awaitLog("msg=running")
	live := func() error {
		for _, m := range s.status("pc").Mirrors {
			if m.State != "live" || !m.Unauthenticated {
				return fmt.Errorf("%s is %s: %s", m.Name, m.State, m.Reason)
			}
		}
		return nil
	}
	await.NoError(t, live)
	o := s.observe("pc", "keep:tcp", "keep:udp")
	const frames = 150
	newer := func(than uint64) func(sighting) bool {
		return func(f sighting) bool { return f.Err == "" && f.Stamp >= than }
	}
	begin := map[string]uint64{}
	for _, view := range []string{"keep:tcp", "keep:udp"} {
		begin[view] = o.first(view, "frame", newer(1)).Stamp
	}
	for view, first := range begin {
		last := o.first(view, "frame after so many", newer(first+frames))
		came := uint64(0)
		o.mu.Lock()
		for _, f := range o.seen[view] {
			if f.Err == "" && f.Stamp >= first && f.Stamp <= last.Stamp {
				came++
			}
		}
		o.mu.Unlock()
		lost := 1 - float64(came)/float64(last.Stamp-first+1)
		t.Logf("%s: %d frames, %.1f %% missing", view, came, 100*lost)
		if view == "keep:tcp" && lost != 0 || lost > 0.1 {
			t.Errorf("%s: %.1f %% of the frames are missing, and the link loses 2 %%", view, 100*lost)
		}
	}

	// achd's connections end with the robot's daemon, or when nothing is heard; frames come again by themselves.
	s.link("robot", "loss=100%")
	await.NoError(t, func() error {
		for _, m := range s.status("pc").Mirrors {
			if m.State != "waiting" {
				return fmt.Errorf("%s is %s though nothing is heard", m.Name, m.State)
			}
		}
		return nil
	})
	s.link("robot", "loss=0%")
	await.NoError(t, live)
	now := uint64(0)
	o.mu.Lock()
	for _, f := range o.seen["keep:tcp"] {
		now = max(now, f.Stamp)
	}
	o.mu.Unlock()
	for view := range begin {
		o.first(view, "frame after the cut", newer(now+1))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.checkOrder()
}
