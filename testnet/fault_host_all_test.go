package testnet_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"achbridge/testnet/need"
)

// Injects one host fault after the other. The mirrors follow after each, and at the end
// the counters add up.
func TestMirrorsFollowAfterHostFaults(t *testing.T) {
	s := newSite(t, "robot", "pc")
	publisher := s.publish("robot", imu, joints)
	robot, pc := s.run("robot"), s.run("pc", "--mirror", "robot/*")
	o := s.startFaultTest(faultTest{
		publishers: []*process{publisher}, daemons: map[string]*process{"robot": robot, "pc": pc},
		readers: []*observation{s.observe("pc", keeping, reopening, parts)},
	})
	o.checkRecovery("cut for 1 s", cut("robot", time.Second)(o))
	o.stopDaemon("robot")
	o.holdMirrorLock()
	o.fillPCMemory()
	if need.IsLong() {
		o.stopDaemon("pc")
		o.fillRobotMemory()
		o.exhaustDescriptors("robot", "battery")
		o.exhaustDescriptors("pc", "compass")
	}
	o.finish("after all of that", now())
}

// stopTime returns how long a daemon is stopped: as long as a debugger, or a machine
// that swaps, may stop it.
func stopTime() time.Duration { return need.LongOr(5*time.Second, 500*time.Millisecond) }

func (o *faultTest) stopDaemon(host string) {
	o.t.Helper()
	o.daemons[host].freeze()
	time.Sleep(stopTime()) // the length of the stop
	o.checkRecovery("daemon of "+host+" stopped", o.daemons[host].thaw())
}

// maxExtraLoad is the share of a CPU that a daemon may use in addition while it waits
// for locks.
const maxExtraLoad = 0.1

// holdMirrorLock stops a reader that holds the lock of a mirror. Only that mirror must
// wait, and no process may busy-wait.
func (o *faultTest) holdMirrorLock() {
	o.t.Helper()
	pc, during := o.daemons["pc"], need.LongOr(5*time.Second, 200*time.Millisecond)
	usual := pc.cpuLoad(during)
	o.began = now()
	reader := o.startPeer("pc", "robot.imu", "hold", "600000")
	awaitOwner(o.t, o.channel("pc", "robot.imu"))
	busy := pc.cpuLoad(during)
	o.t.Logf("processor of the PC's daemon: %.3f, and %.3f while the lock of a mirror was held", usual, busy)
	if busy > usual+maxExtraLoad && need.IsLong() {
		o.t.Errorf("processor: got %.3f while a lock is held, want about %.3f as before", busy, usual)
	}
	o.readers[0].waitUntilFollowing(now(), resumeLimit, parts)
	reader.kill()
	o.checkRecovery("reader stopped with the lock of a mirror", now())
}

// A small /dev/shm, and shell commands that fill and free it.
const (
	shmSize = "24m"
	fill    = `mount -o remount,size=` + shmSize + ` /dev/shm; ! head -c 1G /dev/zero >/dev/shm/filler 2>/dev/null; [ $(stat -fc %a /dev/shm) = 0 ]`
	drain   = `rm /dev/shm/filler`
)

// fillPCMemory fills the PC's shared memory. A mirror that cannot be created is reported,
// and created as soon as there is room. Other mirrors are not affected.
func (o *faultTest) fillPCMemory() {
	o.t.Helper()
	o.shell("pc", fill)
	late := o.publish("robot", "gps:20:5000")
	line := o.daemons["pc"].awaitLog("mirror refused")
	if !strings.Contains(line, "channel=robot.gps") || !strings.Contains(line, "no room in /dev/shm") {
		o.t.Errorf("got log line %q, want that /dev/shm is full", line)
	}
	o.readers[0].waitUntilFollowing(now(), resumeLimit, o.readers[0].views...)
	gps := o.observe("pc", "keep:robot.gps")
	o.shell("pc", drain)
	freed := now()
	o.t.Logf("mirror made and fed %v after there was room", gps.waitUntilFollowing(freed, resumeLimit, "keep:robot.gps"))
	o.addPublisher(late, "gps")
	o.checkRecovery("shared memory of the PC full", freed)
}

// fillRobotMemory fills the robot's shared memory. Existing channels must not be affected.
func (o *faultTest) fillRobotMemory() {
	o.t.Helper()
	o.shell("robot", fill)
	o.checkRecovery("shared memory of the robot full", now())
	time.Sleep(2 * time.Second) // time for problems to appear
	o.shell("robot", drain)
	o.checkRecovery("shared memory of the robot free again", now())
}

// exhaustDescriptors lets a daemon open no more files. It must keep its files, report the
// problem, and offer a channel created meanwhile as soon as it may open files again.
func (o *faultTest) exhaustDescriptors(host, channel string) {
	o.t.Helper()
	daemon := o.daemons[host]
	daemon.limitFiles(3) // fewer than it has open; these stay open
	late := o.publish("robot", channel+":20:5000")
	line := daemon.awaitLog("too many open files")
	if !strings.Contains(line, "level=WARN") && !strings.Contains(line, "level=ERROR") {
		o.t.Errorf("got log line %q, want a warning", line)
	}
	time.Sleep(3 * time.Second) // time in which the daemon may try to open other files
	daemon.checkAlive()
	o.readers[0].waitUntilFollowing(now(), resumeLimit, o.readers[0].views...)

	daemon.limitFiles(1024)
	mended := now()
	view := "reopen:robot." + channel
	o.t.Logf("channel that came meanwhile followed %v after there were descriptors again", o.observe("pc", view).waitUntilFollowing(mended, resumeLimit, view))
	o.addPublisher(late, channel)
	o.checkRecovery("no descriptors left to the daemon of "+host, mended)
}

// limitFiles limits how many descriptors a process may have.
func (p *process) limitFiles(n int) {
	p.t.Helper()
	out, err := exec.Command("prlimit", "--pid", strconv.Itoa(p.Process.Pid), "--nofile="+strconv.Itoa(n)+":").CombinedOutput()
	if err != nil {
		p.t.Fatalf("prlimit: %v\n%s", err, out)
	}
}

// startFaultTestOfTwo starts robot and PC, with more arguments for both daemons, and a fault test of them.
func startFaultTestOfTwo(t *testing.T, args ...string) *faultTest {
	t.Helper()
	s := newSite(t, "robot", "pc")
	publisher := s.publish("robot", imu, joints)
	daemons := map[string]*process{
		"robot": s.run("robot", args...),
		"pc":    s.run("pc", append([]string{"--mirror", "robot/*"}, args...)...),
	}
	return s.startFaultTest(faultTest{
		publishers: []*process{publisher}, daemons: daemons,
		readers: []*observation{s.observe("pc", keeping, reopening, parts)},
	})
}
