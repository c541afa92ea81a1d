package testnet_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// One fault of a host comes after the other; the mirrors follow each time, and the
// accounts of all of it close.
func TestMirrorsFollowAfterFaultsOfAHost(t *testing.T) {
	s := newSite(t, "robot", "pc")
	beside, orphan := s.publish("robot", joints), s.publish("robot", imu)
	robot, pc := s.run("robot"), s.run("pc", "--mirror", "robot/*")
	o := s.brace(ordeal{
		publishers: []*process{beside}, daemons: map[string]*process{"robot": robot, "pc": pc},
		readers: []*observation{s.observe("pc", keeping, reopening, parts)},
	})
	o.recovers("cut for 1 s", cut("robot", time.Second)(o))
	o.stops("robot")
	o.losesLocks()
	o.holdsALock()
	o.fillsMemoryOfThePC()
	if need.IsLong() {
		o.stops("pc")
		o.fillsMemoryOfTheRobot()
		o.hasNoDescriptors("robot", "battery")
		o.hasNoDescriptors("pc", "compass")
	}
	o.cutsOffAPut()
	o.makesAnew("imu", orphan)
	o.aftermath("publisher of the removed channel killed", now())
}

// pause is for how long a daemon is stopped: as long as a debugger, or a machine
// that swaps, may stop it.
func pause() time.Duration { return need.LongOr(5*time.Second, 500*time.Millisecond) }

func (o *ordeal) stops(host string) {
	o.t.Helper()
	o.daemons[host].freeze()
	time.Sleep(pause()) // the length of the stop is what is tried
	o.recovers("daemon of "+host+" stopped", o.daemons[host].thaw())
}

// losesLocks has programs die with the lock of a channel in hand, before they have changed
// anything: that costs nothing, neither in the robot's channel nor in its mirror.
func (o *ordeal) losesLocks() {
	o.t.Helper()
	for range need.LongOr(50, 2) {
		for host, channel := range map[string]string{"robot": "imu", "pc": "robot.imu"} {
			_ = o.startPeer(host, channel, "die-locked").Wait() // by SIGKILL, which is what it is for
		}
	}
	o.recovers("programs died with the lock, on both sides", now())
}

// idle is by how much more of a processor a daemon may compute while it waits for
// locks.
const idle = 0.1

// holdsALock has a reader stopped with the lock of a mirror in hand: that mirror waits,
// the others do not, and nobody burns a processor over it.
func (o *ordeal) holdsALock() {
	o.t.Helper()
	pc, during := o.daemons["pc"], need.LongOr(5*time.Second, 200*time.Millisecond)
	usual := pc.load(during)
	o.began = now()
	reader := o.startPeer("pc", "robot.imu", "hold", "600000")
	awaitOwner(o.t, o.channel("pc", "robot.imu"))
	busy := pc.load(during)
	o.t.Logf("processor of the PC's daemon: %.3f, and %.3f while the lock of a mirror was held", usual, busy)
	if busy > usual+idle && need.IsLong() {
		o.t.Errorf("processor: got %.3f while a lock is held, want about %.3f as before", busy, usual)
	}
	o.readers[0].follows(now(), resumed, parts)
	reader.kill()
	o.recovers("reader stopped with the lock of a mirror", now())
}

// What lies in the shared memory of a host beside the channels: a program that
// uses all of it.
const (
	shmSize = "24m"
	fill    = `mount -o remount,size=` + shmSize + ` /dev/shm; ! head -c 1G /dev/zero >/dev/shm/filler 2>/dev/null; [ $(stat -fc %a /dev/shm) = 0 ]`
	drain   = `rm /dev/shm/filler`
)

// fillsMemoryOfThePC: a mirror that cannot be made is named; the others go on; it is made when
// there is room, without anybody's help.
func (o *ordeal) fillsMemoryOfThePC() {
	o.t.Helper()
	o.shell("pc", fill)
	late := o.publish("robot", "gps:20:5000")
	line := o.daemons["pc"].awaitLog("mirror refused")
	if !strings.Contains(line, "channel=robot.gps") || !strings.Contains(line, "no room in /dev/shm") {
		o.t.Errorf("got log line %q, want that /dev/shm is full", line)
	}
	o.readers[0].follows(now(), resumed, o.readers[0].views...)
	gps := o.observe("pc", "keep:robot.gps")
	o.shell("pc", drain)
	freed := now()
	o.t.Logf("mirror made and fed %v after there was room", gps.follows(freed, resumed, "keep:robot.gps"))
	o.grew(late, "gps")
	o.recovers("shared memory of the PC full", freed)
}

// fillsMemoryOfTheRobot: it cannot make channels then; those that it has go on.
func (o *ordeal) fillsMemoryOfTheRobot() {
	o.t.Helper()
	o.shell("robot", fill)
	o.recovers("shared memory of the robot full", now())
	time.Sleep(2 * time.Second) // what goes wrong then, if anything
	o.shell("robot", drain)
	o.recovers("shared memory of the robot free again", now())
}

// hasNoDescriptors: a daemon that may open nothing more keeps what it has and says what it
// lacks; a channel that came meanwhile is there as soon as it may again.
func (o *ordeal) hasNoDescriptors(host, channel string) {
	o.t.Helper()
	daemon := o.daemons[host]
	daemon.limitFiles(3) // fewer than it has: those stay
	late := o.publish("robot", channel+":20:5000")
	line := daemon.awaitLog("too many open files")
	if !strings.Contains(line, "level=WARN") && !strings.Contains(line, "level=ERROR") {
		o.t.Errorf("got log line %q, want a warning", line)
	}
	time.Sleep(3 * time.Second) // for whatever else it may want to open
	daemon.alive()
	o.readers[0].follows(now(), resumed, o.readers[0].views...)

	daemon.limitFiles(1024)
	mended := now()
	view := "reopen:robot." + channel
	o.t.Logf("channel that came meanwhile followed %v after there were descriptors again", o.observe("pc", view).follows(mended, resumed, view))
	o.grew(late, channel)
	o.recovers("no descriptors left to the daemon of "+host, mended)
}

// limitFiles changes how many descriptors a process may have.
func (p *process) limitFiles(n int) {
	p.t.Helper()
	out, err := exec.Command("prlimit", "--pid", strconv.Itoa(p.Process.Pid), "--nofile="+strconv.Itoa(n)+":").CombinedOutput()
	if err != nil {
		p.t.Fatalf("prlimit: %v\n%s", err, out)
	}
}

// cutsOffAPut: a channel whose writer died inside put is dirty for ever, as with libach, and
// only a new one helps. The daemon says so.
func (o *ordeal) cutsOffAPut() {
	o.t.Helper()
	o.publish("robot", "map:20:5000").kill()
	_ = o.startPeer("robot", "map", "die-in-put").Wait()
	line := o.daemons["robot"].awaitLog("a writer died inside put")
	if !strings.Contains(line, "channel=map") || !strings.Contains(line, "achbridge channel rm map") {
		o.t.Errorf("log of the robot: got %q, want the channel and the cure", line)
	}
	o.must("robot", "channel", "rm", "--force", "map") // the observers keep it open
	next := o.publish("robot", "map:20:5000")
	made := now()
	o.observe("pc", "reopen:robot.map").follows(made, resumed, "reopen:robot.map")
	o.grew(next, "map")
	o.recovers("a put was cut off", made)
}

// makesAnew: a channel of the robot is removed under its publisher, which goes on in the file
// that nobody finds any more, and is made anew by the next one.
func (o *ordeal) makesAnew(channel string, orphan *process) {
	o.t.Helper()
	o.must("robot", "channel", "rm", "--force", channel)
	await.NoError(o.t, func() error {
		for _, m := range o.status("pc").Mirrors {
			if m.Channel == channel && strings.Contains(m.Reason, "does not offer "+channel+" now") {
				return nil
			}
		}
		return fmt.Errorf("status of the PC: %+v, want that %s is not offered", o.status("pc").Mirrors, channel)
	})
	next := o.publish("robot", imu)
	o.recovers("channel removed and made anew", now())
	orphan.kill() // which is not to be mistaken for the new one's
	o.publishers = append(o.publishers, next)
}

// startOrdeal is startRobotAndPC, braced, with more arguments for both daemons.
func startOrdeal(t *testing.T, args ...string) *ordeal {
	t.Helper()
	s := newSite(t, "robot", "pc")
	publisher := s.publish("robot", imu, joints)
	daemons := map[string]*process{
		"robot": s.run("robot", args...),
		"pc":    s.run("pc", append([]string{"--mirror", "robot/*"}, args...)...),
	}
	return s.brace(ordeal{
		publishers: []*process{publisher}, daemons: daemons,
		readers: []*observation{s.observe("pc", keeping, reopening, parts)},
	})
}
