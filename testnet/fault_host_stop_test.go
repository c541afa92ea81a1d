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

// A PC commands a robot: the robot mirrors the PC's goals. What stood in the robot's socket
// while its daemon was stopped is old when it goes on. So is what the operator's program put
// while the PC's daemon was stopped, although that sees it only then.
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
			time.Sleep(stopTime()) // the length of the stop is what is tried
			await.True(t, "no command is put", func() bool { return origin.LastSeq() > last })
			time.Sleep(2 * commandBudget) // the newest is past its budget now, and there is no newer one yet
			resumes := daemon.thaw()
			took := goals.waitUntilFollowing(resumes, resumeLimit, "keep:goal")
			goals.checkNoOldCommand("keep:goal", stops, resumes)
			t.Logf("%s's daemon stopped for %v: new commands after %v", name, stopTime(), took)
		}
	}
}

// checkNoOldCommand fails the test for every command that was put while a daemon stood
// still, and was older than its budget when it went on.
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
