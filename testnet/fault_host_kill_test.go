package testnet_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"achbridge/testnet/need"
)

// kills returns how often to kill daemons at random moments: usual, unless
// ACHBRIDGE_KILLS has another number.
func kills(t *testing.T, usual int) int {
	text := os.Getenv("ACHBRIDGE_KILLS")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("ACHBRIDGE_KILLS: %q: want how often to kill, 1 or more", text)
	}
	return n
}

// needKills skips the test except in the long run or with ACHBRIDGE_KILLS.
func needKills(t *testing.T) {
	t.Helper()
	if os.Getenv("ACHBRIDGE_KILLS") == "" {
		need.Long(t)
	}
}

// Kills the daemons of both sides while they work, start, link, or detect that the
// other one is dead.
func TestMirrorsFollowAfterKillsAtRandomMoments(t *testing.T) {
	needKills(t)
	s := newSite(t, "robot", "pc")
	publisher := s.publish("robot", "imu:1000:64", "joints:50:3000", "camera:10:100000")
	start := map[string]func() *process{
		"robot": func() *process { return s.run("robot") },
		"pc":    func() *process { return s.run("pc", "--mirror", "robot/*") },
	}
	own := s.observe("robot", "keep:imu", "keep:joints", "keep:camera") // must continue with its open handles
	o := s.startFaultTest(faultTest{
		publishers: []*process{publisher}, daemons: map[string]*process{"robot": start["robot"](), "pc": start["pc"]()},
		readers:   []*observation{own, s.observe("pc", "reopen:robot.imu", "reopen:robot.joints", "reopen:robot.camera")},
		restarted: true, replaced: true, // after an interrupted put the file is replaced
	})
	const spree = 5 // kills in a row, so that one may hit the recovery from the previous one
	var killed moment
	count := kills(t, 100)
	for n := range count {
		if n > 0 && n%spree == 0 {
			o.checkRecovery(fmt.Sprintf("%d daemons killed, to %d in all", spree, n), killed)
		}
		sleepRandomly(400 * time.Millisecond)
		host := []string{"robot", "pc"}[rand.IntN(2)]
		o.daemons[host].kill()
		killed = now()
		o.daemons[host] = start[host]()
	}
	o.finish(fmt.Sprintf("the last of %d daemons killed", count), killed)
}
