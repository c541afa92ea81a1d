package testnet_test

import (
	"strings"
	"testing"
	"time"

	"achbridge/testnet/need"
)

// A publisher is killed again and again, and one is cut off inside put: then its
// channel is dirty for ever, as with libach, and only a new one helps. The daemon
// says so, and everything else goes on.
func TestMirrorsFollowAfterThePublisherWasKilledAtRandomMoments(t *testing.T) {
	need.Long(t)
	s := newSite(t, "robot", "pc")
	beside := s.publish("robot", "joints:50:3000")
	camera := s.publish("robot", "camera:20:100000")
	robot, pc := s.run("robot"), s.run("pc", "--mirror", "robot/*")
	o := s.brace(ordeal{
		publishers: []*process{beside}, daemons: map[string]*process{"robot": robot, "pc": pc},
		readers: []*observation{s.observe("pc", parts, "reopen:robot.camera")}, replaced: true,
	})
	dirty := 0
	var published moment
	const count = 20
	for n := range count {
		if n > 0 {
			o.recovers("publisher killed", published)
		}
		sometime(50 * time.Millisecond)
		camera.kill()
		if n == 0 { // at a moment that hardly ever comes by itself
			_ = s.startPeer("robot", "camera", "die-in-put").Wait()
		}
		if s.renew("robot", "camera") {
			dirty++
		}
		camera = s.publish("robot", "camera:20:100000")
		published = now()
	}
	o.aftermath("publisher killed inside put", published)
	if dirty == 0 {
		t.Error("no put was cut off: the test shows nothing")
	}
	line := robot.awaitLog("a writer died inside put")
	if !strings.Contains(line, "channel=camera") || !strings.Contains(line, "achbridge channel rm camera") {
		t.Errorf("log of the robot: got %q, want the channel and the cure", line)
	}
	t.Logf("%d publishers killed, %d of them inside put", count, dirty)
}

// renew removes a channel that a writer has left dirty, as the daemon's log advises.
func (s *site) renew(host, name string) (dirty bool) {
	s.t.Helper()
	stat, err := s.channel(host, name).Stat()
	if err != nil {
		s.t.Fatal(err)
	}
	if stat.Dirty {
		time.Sleep(500 * time.Millisecond) // nobody comes at once
		s.must(host, "channel", "rm", name)
	}
	return stat.Dirty
}
