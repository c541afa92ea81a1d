package testnet_test

import (
	"syscall"
	"testing"
	"time"
)

// idle is by how much more of a processor a daemon may compute while it waits for
// locks.
const idle = 0.1

// A reader that is stopped with the lock of a mirror in hand: that mirror waits,
// the others do not, and nobody burns a processor over it.
func TestStoppedReaderOfAMirrorHoldsUpNobodyElse(t *testing.T) {
	o := startOrdeal(t)
	pc := o.daemons["pc"]
	usual := pc.load(time.Second)
	o.began = now()
	reader := o.startPeer("pc", "robot.imu", "hold", "60000")
	awaitOwner(t, o.channel("pc", "robot.imu"))
	busy := pc.load(long(5*time.Second, time.Second))
	t.Logf("processor of the PC's daemon: %.3f, and %.3f while the lock of a mirror was held", usual, busy)
	if busy > usual+idle {
		t.Errorf("processor: got %.3f while a lock is held, want about %.3f as before", busy, usual)
	}
	o.readers[0].follows(now(), resumed, parts)
	reader.kill()
	o.aftermath("reader stopped with the lock of a mirror", now())
}

// The same on the robot, where the robot's own writer waits too.
func TestStoppedReadersOfTheRobotsChannelsHoldUpNobodyElse(t *testing.T) {
	longRun(t)
	s := newSite(t, "robot", "pc")
	names := []string{"a", "b", "c", "d"}
	channels := []string{"joints:50:3000"}
	views := []string{parts}
	for _, name := range names {
		channels, views = append(channels, name+":200:64"), append(views, "keep:robot."+name)
	}
	publisher := s.publish("robot", channels...)
	robot := s.run("robot")
	o := s.brace(ordeal{
		daemons: map[string]*process{"robot": robot, "pc": s.run("pc", "--mirror", "robot/*")},
		readers: []*observation{s.observe("pc", views...)},
	})
	usual := robot.load(time.Second)
	o.began = now()
	robot.freeze()
	time.Sleep(50 * time.Millisecond) // each channel gets a frame that the daemon has not seen
	var readers []*process
	for _, name := range names {
		readers = append(readers, s.startPeer("robot", name, "hold", "60000"))
		awaitOwner(t, s.channel("robot", name))
	}
	robot.thaw()
	busy := robot.load(long(5*time.Second, time.Second))
	t.Logf("processor of the robot's daemon: %.3f, and %.3f while the locks of %d channels were held", usual, busy, len(names))
	if busy > usual+idle {
		t.Errorf("processor: got %.3f while locks are held, want at most %.3f as before", busy, usual)
	}
	o.readers[0].follows(now(), resumed, parts)
	for _, r := range readers {
		r.kill()
	}
	o.recovers("readers stopped with the locks of four channels", now())
	publisher.signal(syscall.SIGUSR1) // its puts have failed, as those of any writer would
	o.leaksNothing()
	o.ledgerCloses()
	o.putsNothingLate()
}
