package testnet_test

import (
	"syscall"
	"testing"
	"time"

	"achbridge/testnet/need"
)

// Stops readers that hold the locks of a robot's channels, for which also the robot's own
// writer waits.
func TestStoppedReadersBlockOnlyTheirChannels(t *testing.T) {
	need.Long(t)
	s := newSite(t, "robot", "pc")
	names := []string{"a", "b", "c", "d"}
	channels := []string{"joints:50:3000"}
	views := []string{parts}
	for _, name := range names {
		channels, views = append(channels, name+":200:64"), append(views, "keep:robot."+name)
	}
	publisher := s.publish("robot", channels...)
	robot := s.run("robot")
	o := s.startFaultTest(faultTest{
		daemons: map[string]*process{"robot": robot, "pc": s.run("pc", "--mirror", "robot/*")},
		readers: []*observation{s.observe("pc", views...)},
	})
	usual := robot.cpuLoad(time.Second)
	o.began = now()
	robot.freeze()
	time.Sleep(50 * time.Millisecond) // until each channel has a frame that the daemon has not seen
	var readers []*process
	for _, name := range names {
		readers = append(readers, s.startPeer("robot", name, "hold", "600000"))
		awaitOwner(t, s.channel("robot", name))
	}
	robot.thaw()
	busy := robot.cpuLoad(5 * time.Second)
	t.Logf("processor of the robot's daemon: %.3f, and %.3f while the locks of %d channels were held", usual, busy, len(names))
	if busy > usual+maxExtraLoad {
		t.Errorf("processor: got %.3f while locks are held, want at most %.3f as before", busy, usual)
	}
	o.readers[0].waitUntilFollowing(now(), resumeLimit, parts)
	for _, r := range readers {
		r.kill()
	}
	o.checkRecovery("readers stopped with the locks of four channels", now())
	publisher.signal(syscall.SIGUSR1) // its puts have failed, like those of any writer
	o.checkLeaks()
	o.checkCounters()
	o.checkLateFrames()
}
