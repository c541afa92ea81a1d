package testnet_test

import (
	"fmt"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// commandBudget is the budget of the commands in the test below.
const commandBudget = 50 * time.Millisecond

// A robot mirrors the goals of a PC, as commands. Commands that waited in the robot's socket
// while its daemon was stopped are old when it continues. So are commands that were put while
// the PC's daemon was stopped, although that daemon sees them only when it continues.
func TestNoOldCommandIsPutAfterDaemonStop(t *testing.T) {
	s := newSite(t, "robot", "pc")
	s.publish("pc", "goal:4:64")
	pc := s.run("pc")
	robot := s.run("robot", "--mirror", fmt.Sprintf("pc/goal,as=goal,class=command,budget=%v", commandBudget))
	goals := s.observe("robot", "keep:goal")
	goals.waitUntilFollowing(now(), meetLimit, "keep:goal")
	origin := s.channel("pc", "goal")
	for range need.LongOr(5, 1) {
		for name, daemon := range map[string]*process{"robot": robot, "operator": pc} {
			stops, last := daemon.freeze(), origin.LastSeq()
			time.Sleep(stopTime()) // the length of the stop
			await.True(t, "no command is put", func() bool { return origin.LastSeq() > last })
			time.Sleep(2 * commandBudget) // the newest command is past its budget, and there is no newer one
			resumes := daemon.thaw()
			took := goals.waitUntilFollowing(resumes, resumeLimit, "keep:goal")
			goals.checkNoOldCommand("keep:goal", stops, resumes)
			t.Logf("%s's daemon stopped for %v: new commands after %v", name, stopTime(), took)
		}
	}
}

// checkNoOldCommand fails the test for each command that was put into the mirror although
// its program had put it while a daemon was stopped, and it was past its budget when the
// daemon continued.
func (o *observation) checkNoOldCommand(view string, stops, resumes moment) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.frames[view] {
		if s.Put > int64(stops) && s.Put < int64(resumes)-int64(commandBudget) {
			o.t.Errorf("got a command that was %v old when the daemon went on, want none past %v", time.Duration(int64(resumes)-s.Put), commandBudget)
		}
	}
}
