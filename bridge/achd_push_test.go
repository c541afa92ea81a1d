package bridge

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// push returns the first push of a host.
func (h *host) push() status.Push {
	h.w.t.Helper()
	return append(h.node.Status().Pushes, status.Push{})[0]
}

func TestPushToAchdHost(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.oldRobot(), w.host("pc", wire10ms)
		pc.run(Config{Pushes: rule.Pushes{{Channel: "plan", Host: "achd://robot", As: "goal"}}, DialAchd: robot.dial})
		is := func(state status.PushState, cause status.Cause, text string) func() bool {
			return func() bool {
				p := pc.push()
				return p.Unauthenticated && p.State == state && p.Cause == cause && strings.Contains(p.Reason, text)
			}
		}
		w.within(time.Second, "no channel here", is(status.PushWaiting, "", "this host has no channel plan"))
		plan := pc.channel("plan", 16, 64)
		w.within(time.Second, "no channel there", is(status.PushWaiting, status.CauseNoChannel, "it has no such channel"))
		robot.channel("goal", 16, 64)
		w.within(6*time.Second, "it is taken", is(status.PushAccepted, "", ""))
		for i := range uint64(100) {
			plan.put(i+1, 64)
			time.Sleep(10 * time.Millisecond)
		}
		robot.follows("goal", 100, 20*time.Millisecond)

		robot.goes(true)
		w.within(time.Second, "no robot", is(status.PushWaiting, status.CausePeerSilent, "achd there: "))
		robot.goes(false)
		w.within(6*time.Second, "the robot is back", is(status.PushAccepted, "", ""))
		plan.put(101, 64)
		robot.follows("goal", 101, 20*time.Millisecond)
		if n := strings.Count(pc.log.String(), "without authentication or encryption"); n != 1 {
			t.Errorf("got %d log lines on what achd lacks, want one", n)
		}
		if err := pc.node.Apply(Config{}); err != nil {
			t.Fatal(err)
		}
		w.within(time.Second, "the robot's client has left", func() bool { return len(robot.server.Report().Clients) == 0 })
	})
}

// Commands are not sent by achd's protocol. Frames received by it are not sent back by it.
func TestAchdPushRefusesCommandsAndEchoes(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.oldRobot(), w.host("pc", wire10ms)
		robot.channel("goal", 16, 64)
		pc.channel("goal", 16, 64)
		pc.run(Config{
			Pushes: rule.Pushes{{Channel: "goal", Host: "achd://robot"}}, Adopt: []string{"goal"},
			Accept: rule.Grants{{Channels: []string{"goal"}, QoS: rule.QoS{Class: rule.Command}}}, DialAchd: robot.dial,
		})
		w.within(time.Second, "a command", func() bool { return strings.Contains(pc.push().Reason, "it carries commands") })
		robot.channel("imu", 16, 64)
		err := pc.node.Apply(Config{
			Pushes: rule.Pushes{{Channel: "goal", Host: "achd://robot"}}, Adopt: []string{"goal"},
			Mirrors: rule.Mirrors{{Host: "achd://robot", Channel: "goal", As: "goal"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.within(7*time.Second, "the mirror", func() bool { return pc.mirror("goal").State == status.MirrorLive })
		time.Sleep(10 * time.Second)
		for _, c := range robot.server.Report().Clients {
			if c.Writes {
				t.Errorf("got the channel pushed back to its origin, want it refused: %+v, %+v", c, pc.push())
			}
		}
	})
}
