package testnet_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// listed is one line of `achbridge ls --json`, with all its keys.
type listed struct {
	Host       string   `json:"host"`
	Channel    string   `json:"channel"`
	FrameCount int      `json:"frame_count"`
	FrameSize  int      `json:"frame_size"`
	Node       string   `json:"node"`
	Addrs      []string `json:"addrs"`
	MirroredAs string   `json:"mirrored_as"`
	Unproved   bool     `json:"unproved"`
	Way        string   `json:"way"`
}

// ls asks a host what it could mirror; code is the program's exit code.
func (s *site) ls(host string, args ...string) (list []listed, code int) {
	s.t.Helper()
	stdout, stderr, code := s.verb(host, append([]string{"ls", "--json"}, args...)...)
	dec := json.NewDecoder(strings.NewReader(stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&list); err != nil {
		s.t.Fatalf("ls on %s: %v in %q %s", host, err, stdout, stderr)
	}
	return list, code
}

const (
	codeOK      = 0
	codeFailure = 1
	codeNothing = 3
)

func TestLsListsTheRobotsChannels(t *testing.T) {
	s := newSite(t, "robot", "pc")
	if list, code := s.ls("pc", "--timeout", "200ms"); code != codeNothing || len(list) != 0 {
		t.Errorf("nobody there: got %v and exit code %d, want an empty list and %d", list, code, codeNothing)
	}
	s.publish("robot", "imu:200:64", "joints:50:3000")
	s.run("robot")

	var alone []listed
	await(t, met, func() (err error) {
		alone, _ = s.ls("pc")
		return sameNames(alone, "robot/imu", "robot/joints")
	})
	checkListed(t, alone, "")
	if list, code := s.ls("pc", "robot/gps", "--timeout", "200ms"); code != codeNothing || len(list) != 0 {
		t.Errorf("a channel that is not there: got %v and exit code %d, want an empty list and %d", list, code, codeNothing)
	}

	s.run("pc", "--mirror", "robot/*")
	s.observe("pc", keeping, parts).follows(now(), met, keeping, parts)
	asked, _ := s.ls("pc")
	if err := sameNames(asked, "robot/imu", "robot/joints"); err != nil {
		t.Errorf("with a daemon: %v", err)
	}
	checkListed(t, asked, "robot.")
	if alone[0].Node != asked[0].Node {
		t.Errorf("node: got %s without a daemon and %s with one, want the same", alone[0].Node, asked[0].Node)
	}
	if list, code := s.ls("pc", "robot/gps", "--timeout", "200ms"); code != codeNothing || len(list) != 0 {
		t.Errorf("a channel that is not there, with a daemon: got %v and exit code %d, want an empty list and %d", list, code, codeNothing)
	}
}

// checkListed checks the robot's imu, which is mirrored as prefix+imu, or not
// when prefix is empty.
func checkListed(t *testing.T, list []listed, prefix string) {
	t.Helper()
	for _, c := range list {
		want := ""
		if prefix != "" {
			want = prefix + c.Channel
		}
		if c.MirroredAs != want || c.FrameCount != 16 || c.FrameSize < 64 || len(c.Node) != 32 || len(c.Addrs) == 0 {
			t.Errorf("got %+v, want mirrored_as %q, 16 frames of 64 B or more, a node id and addresses", c, want)
		}
	}
}

func sameNames(list []listed, want ...string) error {
	var got []string
	for _, c := range list {
		got = append(got, c.Host+"/"+c.Channel)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("listed: got %v, want %v", got, want)
	}
	return nil
}

func TestPeerWithAnotherKeyIsRefusedOnBothSides(t *testing.T) {
	s := newSite(t, "robot", "pc")
	s.install("pc", s.newKey("pc"))
	s.publish("robot", "imu:200:64")
	robot := s.run("robot")
	robot.awaitLog("msg=running", met)
	pc := s.run("pc", "--mirror", "robot/*", "--peer", "robot") // a peer that is not asked for by address is not even dialled
	for _, p := range []*process{robot, pc} {
		line := p.awaitLog("peer has another network key", met)
		if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "peer=") || !strings.Contains(line, "network=") {
			t.Errorf("got log line %q, want a warning that names the peer and the networks", line)
		}
	}
	if list, code := s.ls("pc", "--timeout", "500ms"); code != codeNothing {
		t.Errorf("ls: got %v and exit code %d, want nothing and %d", list, code, codeNothing)
	}
	if names := s.channels("pc"); len(names) != 0 {
		t.Errorf("channels of the PC: got %v, want none", names)
	}
}

// channels are the names of a host's channels.
func (s *site) channels(host string) (names []string) {
	s.t.Helper()
	out, err := s.lab.Command(host, "ls", "/dev/shm").Output()
	if err != nil {
		s.t.Fatalf("ls /dev/shm on %s: %v", host, err)
	}
	for file := range strings.Lines(string(out)) {
		names = append(names, strings.TrimPrefix(strings.TrimSpace(file), "achshm-"))
	}
	return names
}

func TestDaemonThatIsToldToLeaveIsForgottenAtOnce(t *testing.T) {
	w := startRobotAndPC(t)
	if took := w.robot.leave(); took > 2*time.Second {
		t.Errorf("left after %v, want less than 2s", took)
	}
	left := now()
	await(t, time.Second, func() error {
		if list, code := w.ls("pc", "--timeout", "1ms"); code != codeNothing {
			return fmt.Errorf("with a daemon: got %v and exit code %d, want nothing and %d", list, code, codeNothing)
		}
		return nil
	})
	t.Logf("forgotten by the PC's daemon after %v", time.Duration(now()-left).Round(time.Millisecond))
	nobody := filepath.Join(t.TempDir(), "sock")
	if list, code := w.ls("pc", "--control", nobody, "--timeout", "500ms", "robot"); code != codeNothing {
		t.Errorf("without a daemon: got %v and exit code %d, want nothing and %d", list, code, codeNothing)
	}
}

func TestHostsThatMirrorEachOtherMakeNoLoop(t *testing.T) {
	s := newSite(t, "robot", "pc")
	s.publish("robot", "imu:200:64")
	s.publish("pc", "goal:200:64")
	// Both may even offer all their mirrors again, and want everything.
	robot := s.run("robot", "--mirror", "*/*", "--relay", "*")
	pc := s.run("pc", "--mirror", "*/*", "--relay", "*")
	atPC, atRobot := s.observe("pc", keeping), s.observe("robot", "keep:pc.goal")
	atPC.follows(now(), met, keeping)
	atRobot.follows(now(), met, "keep:pc.goal")
	begin := atPC.last(keeping)
	end := atPC.first(keeping, "frame a second later", patience, func(s sighting) bool { return s.Put > begin.Put+int64(time.Second) })
	if puts, frames := end.Seq-begin.Seq, end.Stamp-begin.Stamp; puts > frames {
		t.Errorf("puts into the mirror: got %d for %d frames of the robot, want no frame twice", puts, frames)
	}
	for host, want := range map[string][]string{"robot": {"imu", "pc.goal"}, "pc": {"goal", "robot.imu"}} {
		if got := s.channels(host); !slices.Equal(got, want) {
			t.Errorf("channels of %s: got %v, want %v", host, got, want)
		}
	}
	if up := strings.Count(robot.log.String(), "link up") + strings.Count(pc.log.String(), "link up"); up > 4 {
		t.Errorf("links: got %d times up on both sides together, want 2, or 4 when both dialled at once", up)
	}
}

func TestMirrorIsOfferedAgainOnlyByRelay(t *testing.T) {
	s := newSite(t, "robot", "pc", "base")
	s.publish("robot", "imu:200:64")
	s.publish("pc", "goal:200:64")
	s.run("robot")
	pc := s.run("pc", "--mirror", "robot/*")
	s.run("base", "--mirror", "pc/*")
	base := s.observe("base", "keep:pc.goal", "keep:pc.robot.imu")
	base.follows(now(), met, "keep:pc.goal")
	await(t, met, func() error {
		if got := s.must("pc", "status", "--json"); !strings.Contains(got, "it is a mirror; --relay") {
			return fmt.Errorf("status of the PC: got\n%s, want that robot.imu is a mirror", got)
		}
		return nil
	})
	if list, code := s.ls("base", "pc"); code != codeOK || sameNames(list, "pc/goal") != nil {
		t.Errorf("without --relay: got %v and exit code %d, want goal alone", list, code)
	}
	if got, want := s.channels("base"), []string{"pc.goal"}; !slices.Equal(got, want) {
		t.Errorf("channels of the base: got %v, want %v", got, want)
	}

	pc.leave()
	s.run("pc", "--mirror", "robot/*", "--relay", "robot.*")
	took := base.follows(now(), resumed, "keep:pc.robot.imu")
	t.Logf("with --relay the robot's frames came after %v", took)
}

func TestPushNeedsToBeAccepted(t *testing.T) {
	s := newSite(t, "robot", "pc")
	s.publish("pc", "goal:200:64")
	robot := s.run("robot")
	s.run("pc", "--peer", "robot").awaitLog("msg=\"link up\"", met)
	_, stderr, code := s.verb("pc", "push", "goal", "robot")
	if code != codeFailure || !strings.Contains(stderr, "--accept goal") {
		t.Errorf("push: got exit code %d and %q, want %d and the cure --accept goal", code, stderr, codeFailure)
	}
	robot.awaitLog("push refused", met)
	if got := s.channels("robot"); len(got) != 0 {
		t.Errorf("channels of the robot: got %v, want none", got)
	}

	robot.leave()
	s.run("robot", "--accept", "goal")
	await(t, met, func() error {
		if got := s.must("pc", "status"); !strings.Contains(got, "linked") {
			return fmt.Errorf("status of the PC: got\n%s, want a link", got)
		}
		return nil
	})
	s.must("pc", "push", "goal", "robot")
	readers := s.observe("robot", "keep:goal")
	took := readers.follows(now(), resumed, "keep:goal")
	t.Logf("accepted, and there after %v", took)
}
