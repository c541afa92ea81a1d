package testnet_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// onceEach are mirrors that must get no frame twice, whenever their daemon is killed:
// mirrors of mode every and of commands, each in a file of the daemon's own and in an
// adopted channel of the host.
var onceEach = []struct {
	channel string // channel of the robot with rate and size
	mirror  string // mirror argument after robot/
	adopted bool
	every   bool
}{
	{"log:200:64", "log,mode=every", false, true},
	{"diary:200:64", "diary,mode=every", true, true},
	// With such a long budget a restarted daemon could put a command again.
	{"goal:50:64", "goal,class=command,budget=5s", false, false},
	{"task:50:64", "task,class=command,budget=5s", true, false},
}

// ringOfTwice is the number of frames in each channel, enough to lose no frame of a log
// while a daemon is down.
const ringOfTwice = "8192"

// Kills the daemon of the mirrors at random moments, while frames are in flight.
func TestNothingIsPutTwiceAfterKillsAtRandomMoments(t *testing.T) {
	needKills(t)
	s := newSite(t, "robot", "pc")
	var channels, args []string
	watched := map[string][]*observation{} // observations by mirror, one for each of its files
	for _, m := range onceEach {
		name := mirrorName(m.channel)
		channels, args = append(channels, m.channel), append(args, "--mirror", "robot/"+m.mirror)
		if m.adopted {
			s.must("pc", "channel", "create", name, "--frames", ringOfTwice, "--size", "64")
			args = append(args, "--adopt", name)
		}
		watched[name] = []*observation{s.observe("pc", "keep:"+name)}
	}
	s.run("robot")
	s.publish("robot", append(channels, "--frames="+ringOfTwice)...)
	pc := s.run("pc", args...)
	for name, list := range watched {
		list[0].waitUntilFollowing(now(), meetLimit, "keep:"+name)
	}
	cutOff, count := 0, kills(t, 25)
	for range count {
		if rand.IntN(4) > 0 { // otherwise kill the daemon while it starts
			watch := watched["robot.diary"]
			watch[len(watch)-1].waitUntilFollowing(now(), meetLimit, "keep:robot.diary")
		}
		sleepRandomly(400 * time.Millisecond)
		pc.kill()
		for _, m := range onceEach {
			if name := mirrorName(m.channel); s.cutOff("pc", name) {
				cutOff++
				if m.adopted { // its owner creates the channel again
					s.must("pc", "channel", "rm", "--force", name)
					s.must("pc", "channel", "create", name, "--frames", ringOfTwice, "--size", "64")
					watched[name] = append(watched[name], s.observe("pc", "keep:"+name))
				}
			}
		}
		pc = s.run("pc", args...)
	}
	for name, list := range watched {
		list[len(list)-1].waitUntilFollowing(now(), meetLimit, "keep:"+name)
	}
	pc.terminate()
	for _, m := range onceEach {
		name := mirrorName(m.channel)
		frames, lost := 0, 0
		for _, o := range watched[name] { // each observation checks that no frame is seen twice or in the wrong order
			n, gone := o.counts("keep:" + name)
			frames, lost = frames+n, lost+gone
		}
		t.Logf("%-12s %d daemons killed: %d frames, %d lost", name, count, frames, lost)
		if m.every && lost > count {
			t.Errorf("%s: %d frames lost, want at most the one under way for each of %d kills", name, lost, count)
		}
	}
	t.Logf("%d puts cut off", cutOff)
}

// mirrorName returns the name of the mirror of the robot's channel NAME:HZ:BYTES.
func mirrorName(channel string) string {
	name, _, _ := strings.Cut(channel, ":")
	return "robot." + name
}

// cutOff reports whether a writer was killed inside a put.
func (s *site) cutOff(host, name string) bool {
	s.t.Helper()
	stat, err := s.channel(host, name).Stat()
	if err != nil {
		s.t.Fatal(err)
	}
	return stat.Dirty
}

// counts returns how many frames a view saw, and how many of the publisher's frames
// between them it did not see.
func (o *observation) counts(view string) (frames, lost int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := uint64(0)
	for _, s := range o.frames[view] {
		if s.Err != "" {
			continue
		}
		if last != 0 && s.Stamp > last {
			lost += int(s.Stamp - last - 1)
		}
		frames, last = frames+1, s.Stamp
	}
	return frames, lost
}
