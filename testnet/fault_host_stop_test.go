package testnet_test

import (
	"fmt"
	"testing"
	"time"
)

// pause is for how long a daemon is stopped: as long as a debugger, or a machine
// that swaps, may stop it.
func pause() time.Duration { return long(5*time.Second, 500*time.Millisecond) }

func TestMirrorsFollowAfterADaemonWasStopped(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"robot", "pc"} {
		t.Run(host, func(t *testing.T) {
			if host == "pc" {
				longRun(t)
			}
			o := startOrdeal(t)
			o.daemons[host].freeze()
			time.Sleep(pause()) // the length of the stop is what is tried here
			o.aftermath(fmt.Sprintf("daemon of %s stopped for %v", host, pause()), o.daemons[host].thaw())
		})
	}
}

// budget of the commands in the tests below.
const commandBudget = 50 * time.Millisecond

// commands is a PC that commands a robot: the robot mirrors the PC's goals.
func commands(t *testing.T, hz string) (s *site, robot, pc *process, goals *observation) {
	s = newSite(t, "robot", "pc")
	s.publish("pc", "goal:"+hz+":64")
	pc = s.run("pc")
	robot = s.run("robot", "--mirror", fmt.Sprintf("pc/goal,as=goal,class=command,budget=%v", commandBudget))
	goals = s.observe("robot", "keep:goal")
	goals.follows(now(), met, "keep:goal")
	return s, robot, pc, goals
}

// refusesOld fails the test for every command that was put while a daemon stood
// still, and was older than its budget when it went on.
func (o *observation) refusesOld(view string, stops, resumes moment) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.seen[view] {
		if s.Put > int64(stops) && s.Put < int64(resumes)-int64(commandBudget) {
			o.t.Errorf("got a command that was %v old when the daemon went on, want none past %v", time.Duration(int64(resumes)-s.Put), commandBudget)
		}
	}
}

// What stood in the socket of the robot meanwhile is old.
func TestNoOldCommandIsPutAfterItsReceiverWasStopped(t *testing.T) {
	_, robot, _, goals := commands(t, "20")
	for range long(5, 1) {
		stops := robot.freeze()
		time.Sleep(pause()) // the length of the stop is what is tried here
		resumes := robot.thaw()
		took := goals.follows(resumes, resumed, "keep:goal")
		goals.refusesOld("keep:goal", stops, resumes)
		t.Logf("robot's daemon stopped for %v: new commands after %v", pause(), took)
	}
}

// What the operator's program put meanwhile is old, although the daemon sees it
// only now.
func TestNoOldCommandIsPutAfterItsSenderWasStopped(t *testing.T) {
	s, _, pc, goals := commands(t, "3")
	origin := s.channel("pc", "goal")
	for range long(5, 1) {
		stops := pc.freeze()
		time.Sleep(pause()) // the length of the stop is what is tried here
		last := origin.LastSeq()
		await(t, patience, func() error {
			if origin.LastSeq() == last {
				return fmt.Errorf("no command was put")
			}
			return nil
		})
		time.Sleep(2 * commandBudget) // the newest is past its budget now, and there is no newer one yet
		resumes := pc.thaw()
		took := goals.follows(resumes, resumed, "keep:goal")
		goals.refusesOld("keep:goal", stops, resumes)
		t.Logf("operator's daemon stopped for %v: new commands after %v", pause(), took)
	}
}
