package testnet_test

import (
	"fmt"
	"strings"
	"testing"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// A sparse file gets its memory when its holes are written. If there is no memory, a
// put into a hole must not crash the daemon nor leave a channel dirty, neither a mirror
// nor an adopted channel.
func TestMirrorsWithHolesSurviveFullSharedMemory(t *testing.T) {
	need.Long(t)
	s := newSite(t, "robot", "pc")
	publisher := s.publish("robot", "imu:200:64", "joints:50:3000", "camera:20:100000")
	robot := s.run("robot")
	first := s.run("pc", "--mirror", "robot/imu", "--mirror", "robot/joints")
	s.observe("pc", keeping, parts).waitUntilFollowing(now(), meetLimit, keeping, parts)
	first.terminate()
	full := now()
	if err := s.startPeer("pc", "robot.camera", "create", "16", "100000").Wait(); err != nil {
		t.Fatal(err)
	}
	s.shell("pc", `fallocate --punch-hole --offset 8192 --length 36864 /dev/shm/achshm-robot.joints
		fallocate --punch-hole --offset 8192 --length 1048576 /dev/shm/achshm-robot.camera
		`+fill)
	pc := s.run("pc", "--mirror", "robot/*", "--adopt", "robot.camera")
	readers := s.observe("pc", keeping, reopening, "reopen:robot.camera")
	readers.waitUntilFollowing(now(), meetLimit, keeping) // the mirror has all of its memory
	for _, name := range []string{"robot.camera", "robot.joints"} {
		line := pc.awaitLog("msg=\"mirror refused\" peer=robot channel=" + name)
		if !strings.Contains(line, "no room in /dev/shm") {
			t.Errorf("got log line %q, want that there is no room", line)
		}
	}
	pc.checkAlive()
	s.shell("pc", drain)
	freed := now()
	await.NoError(t, func() error { // frames are in the former hole
		for _, m := range s.status("pc").Mirrors {
			if m.Channel == "joints" && m.State == "live" && m.Delivered > 1 {
				return nil
			}
		}
		return fmt.Errorf("robot.joints is not fed: %+v", s.status("pc").Mirrors)
	})
	o := s.startFaultTest(faultTest{
		publishers: []*process{publisher}, daemons: map[string]*process{"robot": robot, "pc": pc},
		readers: []*observation{readers, s.observe("pc", parts)}, restarted: true, replaced: true,
	})
	o.began = full
	readers.waitUntilFollowing(freed, resumeLimit, readers.views...)
	for _, name := range []string{"robot.camera", "robot.joints"} {
		if stat, err := s.channel("pc", name).Stat(); err != nil || stat.Dirty {
			t.Errorf("%s: got %+v and %v, want it clean", name, stat, err)
		}
	}
	o.finish("mirrors with holes, shared memory full", freed)
}
