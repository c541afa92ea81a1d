package testnet_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/testnet/await"
)

// suspendedFor is how long the computer is suspended, much longer than the budget
// below. CLOCK_MONOTONIC stops meanwhile.
const suspendedFor = "20" // seconds

// The robot's daemon is stopped while a command waits in its socket, and the computer is
// suspended to RAM (qemu's clock cannot wake it from s2idle). Afterwards the command is
// within its budget by CLOCK_MONOTONIC.
func TestNoOldCommandIsPutAfterSuspend(t *testing.T) {
	if os.Getenv("ACHBRIDGE_SUSPEND") == "" {
		t.Skip("set ACHBRIDGE_SUSPEND=1 where the computer may be suspended; packaging/vm.sh makes one")
	}
	s := newSite(t, "robot", "pc")
	s.publish("pc", "goal:2:64")
	s.run("pc")
	robot := s.run("robot", "--mirror", "pc/goal,as=goal,class=command,budget=15s")
	goals := s.observe("robot", "keep:goal")
	goals.waitUntilFollowing(now(), meetLimit, "keep:goal")
	origin := s.channel("pc", "goal")

	stops, last := robot.freeze(), origin.LastSeq()
	await.True(t, "no command is put", func() bool { return origin.LastSeq() >= last+2 })
	before, suspends := localach.Suspended(), now()
	if out, err := exec.Command("rtcwake", "-m", "mem", "-s", suspendedFor).CombinedOutput(); err != nil {
		t.Fatalf("rtcwake: %v\n%s", err, out)
	}
	slept := localach.Suspended() - before
	if slept < time.Second {
		t.Fatalf("the computer was suspended for %v only", slept)
	}
	resumes := robot.thaw()
	took := goals.waitUntilFollowing(resumes, resumeLimit, "keep:goal")
	t.Logf("suspended for %v, the robot's daemon stopped for %v: new commands after %v", slept, time.Duration(resumes-stops), took)
	goals.mu.Lock()
	defer goals.mu.Unlock()
	for _, g := range goals.frames["keep:goal"] {
		if g.Put > int64(stops) && g.Put < int64(suspends) {
			t.Errorf("a command was put that came %v before the computer was suspended for %v", time.Duration(int64(suspends)-g.Put), slept)
		}
	}
}
