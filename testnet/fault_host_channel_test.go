package testnet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The robot's channel is removed under its publisher, which goes on in the file
// that nobody finds any more, and is made anew by the next one.
func TestMirrorsFollowAfterAChannelWasRemovedAndMadeAnew(t *testing.T) {
	s := newSite(t, "robot", "pc")
	orphan := s.publish("robot", "imu:200:64")
	beside := s.publish("robot", "joints:50:3000")
	robot, pc := s.run("robot"), s.run("pc", "--mirror", "robot/*")
	o := s.brace(ordeal{
		publishers: []*process{beside}, daemons: map[string]*process{"robot": robot, "pc": pc},
		readers: []*observation{s.observe("pc", keeping, reopening, parts)},
	})
	s.must("robot", "channel", "rm", "imu")
	await(t, resumed, func() error {
		for _, m := range s.status("pc").Mirrors {
			if m.Channel == "imu" && strings.Contains(m.Reason, "does not offer imu now") {
				return nil
			}
		}
		return fmt.Errorf("status of the PC: %+v, want that imu is not offered", s.status("pc").Mirrors)
	})
	next := s.publish("robot", "imu:200:64")
	made := now()
	o.recovers("channel removed and made anew", made)
	orphan.kill() // which is not to be mistaken for the new one's
	o.publishers = append(o.publishers, next)
	o.aftermath("publisher of the removed channel killed", now())
}

// user is somebody who is not root, by number.
const user = "4711"

// runAs starts the daemon of a host as a user without rights, who has what it
// needs: a key, and directories for its socket and its state.
func (s *site) runAs(host, user string, args ...string) *process {
	s.t.Helper()
	s.shell(host, `install -d -o "$1" -g "$1" "/run/$1"
		install -m 755 "$0/achbridge" "/run/$1/"
		install -o "$1" -m 600 /etc/achbridge/key "/run/$1/key"
		touch "/run/$1/began"`, s.bin, user)
	home := "/run/" + user
	args = append([]string{"run", "--key", home + "/key", "--control", home + "/sock", "--state", home}, args...)
	return s.startUnder(host, []string{"setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs"}, home+"/achbridge", args...)
}

func (s *site) chmod(host, mode, channel string) {
	s.t.Helper()
	s.shell(host, `chmod "$0" "/dev/shm/achshm-$1"`, mode, channel)
}

// The daemon runs as somebody who may not use the robot's channel. It says what to
// do, and goes on as soon as that is done; the other channels never notice.
func TestMirrorsFollowAfterPermissionsOfTheRobotsChannelChanged(t *testing.T) {
	s := newSite(t, "robot", "pc")
	publisher := s.publish("robot", "imu:200:64", "joints:50:3000")
	s.chmod("robot", "666", "joints")
	robot := s.runAs("robot", user)
	pc := s.run("pc", "--mirror", "robot/*")
	readers := s.observe("pc", keeping, reopening, parts)
	readers.follows(now(), met, parts)
	line := robot.awaitLog("channel=imu", patience)
	if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "chmod") {
		t.Errorf("got log line %q, want a warning with the cure", line)
	}
	s.chmod("robot", "666", "imu")
	took := readers.follows(now(), resumed, keeping)
	t.Logf("channel of another user opened to the daemon: followed after %v", took)

	for range long(10, 2) {
		s.chmod("robot", "0", "imu")
		shut := now()
		await(t, resumed, func() error {
			if seen := readers.last(keeping); now() > moment(seen.Time)+moment(300*time.Millisecond) {
				return nil
			}
			return fmt.Errorf("imu is read %v after the daemon may not any more", time.Duration(now()-shut))
		})
		readers.follows(now(), resumed, parts)
		s.chmod("robot", "666", "imu")
		t.Logf("channel closed to the daemon and opened: followed after %v", readers.follows(now(), resumed, keeping, reopening))
	}
	for range long(200, 20) { // as fast as it comes
		s.chmod("robot", "0", "imu")
		s.chmod("robot", "666", "imu")
	}
	opened := now()
	readers.follows(opened, resumed, keeping, reopening, parts)
	for _, p := range []*process{robot, pc} {
		p.alive()
	}
	if after := publisher.puts(); after.failed != 0 {
		t.Errorf("puts: got %v, want none failed", after)
	}
}

// The same with the file of a mirror, which the daemon finds when it starts.
func TestMirrorsFollowAfterPermissionsOfTheMirrorChanged(t *testing.T) {
	longRun(t)
	s := newSite(t, "robot", "pc")
	s.publish("robot", "imu:200:64", "joints:50:3000")
	s.run("robot")
	s.shell("pc", `chmod 1777 /dev/shm`)
	pc := s.runAs("pc", user, "--mirror", "robot/*")
	readers := s.observe("pc", keeping, reopening, parts)
	readers.follows(now(), met, keeping, reopening, parts)

	s.chmod("pc", "0", "robot.imu")
	time.Sleep(500 * time.Millisecond) // the file that it has open goes on
	readers.follows(now(), resumed, keeping, parts)
	pc.kill()
	pc = s.runAs("pc", user, "--mirror", "robot/*")
	readers.follows(now(), met, parts)
	line := pc.awaitLog("msg=\"mirror refused\" peer=robot channel=robot.imu", met)
	if !strings.Contains(line, "chmod") {
		t.Errorf("got log line %q, want the cure", line)
	}
	s.chmod("pc", "600", "robot.imu")
	t.Logf("mirror opened to its daemon: followed after %v", readers.follows(now(), resumed, keeping, reopening))
}
