package bridge

import (
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/trust"
	"achbridge/localach/damage"
)

// The status has a cause, for programs, for each mirror or push that does not work.
func TestStatusNamesCauses(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{Export: rule.Grants{{Channels: []string{"plan"}, Hosts: []string{"planner"}}, {Channels: []string{"*"}}}})
		robot.channel("plan", 4, 64)
		robot.channel("imu", 4, 64)
		large := robot.channel("large", 16, 1<<20)
		large.put(1, 64)
		pc.channel("goal", 4, 64)
		pc.channel("robot.imu", 4, 64) // a channel of another program
		pc.run(Config{
			Mirrors: []rule.Mirror{
				{Host: "robot", Channel: "plan"}, {Host: "robot", Channel: "*"}, {Host: "robot", Channel: "arms"}, {Host: "nobody", Channel: "imu"},
			},
			Pushes: rule.Pushes{{Channel: "goal", Host: "robot"}},
		}, robot)
		pc.node.loop.call(func() { pc.node.mirrors.common.Space.Free = func(int64) (int64, error) { return 1 << 20, nil } })
		time.Sleep(2 * time.Second)
		causes := map[string]status.Cause{}
		s := pc.node.Status()
		for _, m := range s.Mirrors {
			causes[m.Name] = m.Cause
		}
		for _, p := range s.Pushes {
			causes["push "+p.Channel] = p.Cause
		}
		for name, want := range map[string]status.Cause{
			"robot.plan": status.CauseExportRule, "robot.arms": status.CauseNoChannel, "nobody.imu": status.CausePeerMissing,
			"robot.large": status.CauseShmFull, "robot.imu": status.CauseOther, "push goal": status.CauseAcceptRule,
		} {
			if causes[name] != want {
				t.Errorf("%s: got %q, want %q", name, causes[name], want)
			}
		}
		if peer := s.Peers[0]; peer.Cause != "" {
			t.Errorf("a linked peer: got %q, want no cause", peer.Cause)
		}
	})
}

func TestUnlinkedPeerHasCause(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.key = trust.NewKey()
		robot.run(Config{})
		pc.run(Config{}, robot)
		cause := func() status.Cause { return pc.node.Status().Peers[0].Cause }
		w.within(5*time.Second, "another key", func() bool { return cause() == status.CauseKey })
		robot.stop()
		w.within(20*time.Second, "no answer", func() bool { return cause() == status.CausePeerSilent })
	})
}

// A reader that is stopped while it holds a mirror's lock makes frames wait.
func TestMirrorReportsLockWaitTime(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		imu := robot.channel("imu", 16, 64)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, time.Second)
		if got := pc.mirror("robot.imu").LockWaitS; got != 0 {
			t.Errorf("got %v s, want none before", got)
		}
		damage.TakeLock(t, pc.dir, "robot.imu")
		imu.put(2, 64)
		time.Sleep(time.Second)
		during := pc.mirror("robot.imu").LockWaitS
		damage.FreeLock(t, pc.dir, "robot.imu")
		pc.follows("robot.imu", 2, time.Second)
		after := pc.mirror("robot.imu").LockWaitS
		time.Sleep(time.Second)
		if still := pc.mirror("robot.imu").LockWaitS; during < 0.9 || after > 1.1 || still != after {
			t.Errorf("got %.3f s, then %.3f, then %.3f, want about 1 and no more", during, after, still)
		}
	})
}
