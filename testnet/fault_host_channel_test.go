package testnet_test

import (
	"strings"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// user is the id of a user who is not root.
const user = "4711"

// runAs starts the daemon of a host as an unprivileged user, with a key and directories
// for its socket and state.
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

// The daemon's user may not use the robot's channel. The daemon reports a fix, and works
// as soon as it is applied. Other channels are not affected.
func TestMirrorsFollowAfterChmodOfChannel(t *testing.T) {
	need.Long(t)
	s := newSite(t, "robot", "pc")
	publisher := s.publish("robot", imu, joints)
	s.chmod("robot", "666", "joints")
	robot := s.runAs("robot", user)
	pc := s.run("pc", "--mirror", "robot/*")
	readers := s.observe("pc", keeping, reopening, parts)
	readers.waitUntilFollowing(now(), meetLimit, parts)
	line := robot.awaitLog("channel=imu")
	if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "chmod") {
		t.Errorf("got log line %q, want a warning with the cure", line)
	}
	s.chmod("robot", "666", "imu")
	took := readers.waitUntilFollowing(now(), resumeLimit, keeping)
	t.Logf("channel of another user opened to the daemon: followed after %v", took)

	for range 3 {
		s.chmod("robot", "0", "imu")
		await.True(t, "imu is read although the daemon may not any more", func() bool {
			return now() > moment(readers.last(keeping).Time)+moment(300*time.Millisecond)
		})
		readers.waitUntilFollowing(now(), resumeLimit, parts)
		s.chmod("robot", "666", "imu")
		t.Logf("channel closed to the daemon and opened: followed after %v", readers.waitUntilFollowing(now(), resumeLimit, keeping, reopening))
	}
	for range 50 { // as fast as possible
		s.chmod("robot", "0", "imu")
		s.chmod("robot", "666", "imu")
	}
	opened := now()
	readers.waitUntilFollowing(opened, resumeLimit, keeping, reopening, parts)
	for _, p := range []*process{robot, pc} {
		p.checkAlive()
	}
	if after := publisher.puts(); after.failed != 0 {
		t.Errorf("puts: got %v, want none failed", after)
	}
}

// The same for the file of a mirror, which exists when the daemon starts.
func TestMirrorsFollowAfterChmodOfMirror(t *testing.T) {
	need.Long(t)
	s := newSite(t, "robot", "pc")
	s.publish("robot", imu, joints)
	s.run("robot")
	s.shell("pc", `chmod 1777 /dev/shm`)
	pc := s.runAs("pc", user, "--mirror", "robot/*")
	readers := s.observe("pc", keeping, reopening, parts)
	readers.waitUntilFollowing(now(), meetLimit, keeping, reopening, parts)

	s.chmod("pc", "0", "robot.imu")
	time.Sleep(500 * time.Millisecond) // the daemon still uses the open file
	readers.waitUntilFollowing(now(), resumeLimit, keeping, parts)
	pc.kill()
	pc = s.runAs("pc", user, "--mirror", "robot/*")
	readers.waitUntilFollowing(now(), meetLimit, parts)
	line := pc.awaitLog("msg=\"mirror refused\" peer=robot channel=robot.imu")
	if !strings.Contains(line, "chmod") {
		t.Errorf("got log line %q, want the cure", line)
	}
	s.chmod("pc", "600", "robot.imu")
	t.Logf("mirror opened to its daemon: followed after %v", readers.waitUntilFollowing(now(), resumeLimit, keeping, reopening))
}
