package testnet_test

import (
	"testing"
	"time"
)

// Real daemons on two hosts, and what happens to robots. Whatever it is, the
// mirror follows again without anyone's help within resumed, and no reader ever
// sees an older frame after a newer one (site.observe checks that).
const resumed = 2 * time.Second

// met is how long two daemons may take to find each other by multicast: up to
// a second until the announcement has gone through its probes, and the first
// question is asked again after one, two, four seconds.
const met = 5 * time.Second

// robotAndPC is a robot that publishes and a PC that mirrors all it has.
type robotAndPC struct {
	*site
	robot, pc, publisher *process
	readers              *observation
}

const (
	keeping   = "keep:robot.imu"
	reopening = "reopen:robot.imu"
	parts     = "keep:robot.joints" // frames larger than a datagram
)

// startRobotAndPC returns when the mirrors follow.
func startRobotAndPC(t *testing.T) *robotAndPC {
	t.Helper()
	w := &robotAndPC{site: newSite(t, "robot", "pc")}
	w.publisher = w.publish("robot", "imu:200:64", "joints:50:3000")
	w.robot, w.pc = w.run("robot"), w.run("pc", "--mirror", "robot/*")
	w.readers = w.observe("pc", keeping, reopening, parts)
	took := w.readers.follows(now(), met, keeping, reopening, parts)
	t.Logf("found by multicast and mirrored after %v", took)
	return w
}

// followsAgain checks that all readers get what is put from now on.
func (w *robotAndPC) followsAgain(after string) {
	w.t.Helper()
	took := w.readers.follows(now(), resumed, keeping, reopening, parts)
	w.t.Logf("%s: followed again after %v", after, took)
}

func TestMirrorFollowsAfterTheCableWasCut(t *testing.T) {
	w := startRobotAndPC(t)
	w.link("robot", "cut")
	time.Sleep(3 * time.Second) // the length of the cut is what is tried here
	w.link("robot", "up")
	w.followsAgain("cable cut for 3 s")
}

// As a service manager restarts it.
func TestMirrorFollowsAfterTheRobotsDaemonWasRestarted(t *testing.T) {
	w := startRobotAndPC(t)
	w.robot.leave()
	w.run("robot")
	w.followsAgain("robot's daemon told to leave and restarted")
}

func TestMirrorFollowsAfterTheRobotsDaemonWasKilled(t *testing.T) {
	w := startRobotAndPC(t)
	w.robot.kill()
	w.run("robot")
	w.followsAgain("robot's daemon killed and restarted")
}

func TestMirrorFollowsTheRobotsDaemonToAnotherPort(t *testing.T) {
	w := startRobotAndPC(t)
	w.robot.kill()
	w.run("robot", "--listen", ":9000")
	w.followsAgain("robot's daemon killed and restarted at another port")
}

func TestMirrorFollowsAfterThePublisherWasKilled(t *testing.T) {
	w := startRobotAndPC(t)
	w.publisher.kill()
	w.publish("robot", "imu:200:64", "joints:50:3000")
	w.followsAgain("publisher killed and restarted")
}

// Frames that do not fit need another file: a reader that reopens finds it, one
// that keeps its handle is told by an error.
func TestMirrorOfAChannelMadeAnewWithLargerFramesIsReplaced(t *testing.T) {
	w := startRobotAndPC(t)
	w.publisher.leave() // which removes its channels
	begin := now()
	w.publish("robot", "imu:200:5000", "joints:50:3000")
	large := func(s sighting) bool { return s.Size == 5000 }
	came := w.readers.first(reopening, "frame of 5000 B", resumed, large)
	told := w.readers.first(keeping, "error", patience, func(s sighting) bool { return s.Err != "" })
	if late := time.Duration(told.Time - came.Time); late > time.Second {
		t.Errorf("kept handle: got %q %v after the first large frame, want it within 1s", told.Err, late)
	}
	if came.Inode == told.Inode {
		t.Errorf("inode: got %d before and after, want another file", came.Inode)
	}
	t.Logf("first large frame after %v, kept handle got %q %v later", time.Duration(came.Time-int64(begin)).Round(time.Millisecond), told.Err, time.Duration(told.Time-came.Time).Round(time.Millisecond))
	w.readers.follows(now(), resumed, reopening, parts)
}

// Frames that fit go into the file that is there: nobody has to reopen.
func TestMirrorOfAChannelMadeAnewWithSmallerFramesKeepsItsFile(t *testing.T) {
	w := startRobotAndPC(t)
	before := w.readers.last(keeping)
	w.publisher.leave()
	w.publish("robot", "imu:200:32", "joints:50:3000")
	w.followsAgain("channel made anew with smaller frames")
	after := w.readers.last(keeping)
	if after.Inode != before.Inode || after.Size != 32 {
		t.Errorf("got %+v, want frames of 32 B in inode %d", after, before.Inode)
	}
}

func TestMirrorGoesOnInItsFileAfterThePCsDaemonWasKilled(t *testing.T) {
	w := startRobotAndPC(t)
	before := w.readers.last(keeping)
	w.pc.kill()
	w.run("pc", "--mirror", "robot/*")
	w.followsAgain("PC's daemon killed and restarted")
	for _, view := range []string{keeping, reopening} {
		if after := w.readers.last(view); after.Inode != before.Inode {
			t.Errorf("%s: inode: got %d, want %d as before", view, after.Inode, before.Inode)
		}
	}
}
