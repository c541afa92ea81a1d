package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet/walk"
	"achbridge/wire"
)

// pushing returns a PC that is linked to a robot, which accepts pushes of plan*.
func (w *world) pushing() (robot, pc *host) {
	w.t.Helper()
	robot, pc = w.host("robot", wire10ms), w.host("pc", wire10ms)
	robot.run(Config{Accept: rule.GrantTo("plan*")})
	pc.run(Config{}, robot)
	w.within(time.Second, "link", func() bool { return len(pc.node.Status().Links) == 1 })
	return robot, pc
}

func TestPushDoesNotRenameConfiguredMirror(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		imu := robot.channel("imu", 4, 64)
		imu.put(1, 64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu"}}, Accept: rule.GrantTo("plan")}, robot)
		pc.follows("robot.imu", 1, time.Second)
		err := robot.node.Push(w.t.Context(), rule.Push{Channel: "imu", Host: "pc", As: "plan"})
		if err == nil || !strings.Contains(err.Error(), "as robot.imu") {
			t.Errorf("got %v, want a refusal that names the mirror there is", err)
		}
		imu.put(2, 64)
		pc.follows("robot.imu", 2, time.Second)
	})
}

// Callers that gave up waiting do not read the answers.
func TestUnreadPushAnswersBlockNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pushing()
		pc.channel("plan", 4, 64).put(1, 64)
		p := rule.Push{Channel: "plan", Host: "robot"}
		if err := pc.node.Push(w.t.Context(), p); err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(w.t.Context())
		cancel()
		for range 10 {
			pc.node.Push(gone, p)
		}
		robot.stop()
		robot.run(robot.cfg)
		w.within(10*time.Second, "the push is accepted again", func() bool {
			return pc.node.Status().Pushes[0].State == status.PushAccepted
		})
	})
}

func TestWaitingPushOutlivesRefusal(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		pc.run(Config{}, robot)
		pc.channel("plan", 4, 64).put(1, 64)
		if err := pc.node.Push(w.t.Context(), rule.Push{Channel: "plan", Host: "robot"}); err != nil {
			t.Fatal(err)
		}
		robot.run(Config{})
		w.within(10*time.Second, "the refusal", func() bool {
			list := pc.node.Status().Pushes
			return len(list) == 1 && list[0].State == status.PushRefused
		})
		robot.stop()
		robot.run(Config{Accept: rule.GrantTo("plan")})
		robot.follows("plan", 1, 10*time.Second)
	})
}

func TestPushRequestsOfPeerAreDistinctAndLimited(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pushing()
		pc.node.loop.call(func() {
			for _, l := range pc.node.links {
				for i := range uint32(2 * maxPushed) {
					l.send(wire.Offer{ID: i + 1, Channel: "plan", As: "plan"})
					l.send(wire.Offer{ID: i + 1, Channel: fmt.Sprintf("c%d", i), As: fmt.Sprintf("plan%d", i)})
				}
			}
		})
		time.Sleep(5 * time.Second)
		requests := 0
		robot.node.loop.call(func() { requests = len(robot.node.pushed()) })
		if requests != maxPushed {
			t.Errorf("%d wishes of a peer, want %d", requests, maxPushed)
		}
	})
}

// pushingGoal returns a PC with cfg, whose channel goal a robot mirrors.
func (w *world) pushingGoal(cfg Config) (robot, pc *host, goal *channel) {
	w.t.Helper()
	robot, pc = w.host("robot", wire10ms), w.host("pc", wire10ms)
	robot.run(Config{Accept: rule.GrantTo("goal*")})
	goal = pc.channel("goal", 8, 64)
	goal.put(1, 64)
	pc.run(cfg, robot)
	robot.follows("goal", 1, time.Second)
	return robot, pc, goal
}

func TestRefusedSecondPushKeepsFirstPush(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, goal := w.pushingGoal(Config{Export: rule.Grants{}, Pushes: rule.Pushes{{Channel: "goal", Host: "robot"}}})
		if err := pc.node.Push(w.t.Context(), rule.Push{Channel: "goal", Host: "robot", As: "goal2"}); err == nil {
			t.Fatal("got a second mirror of one channel, want a refusal")
		}
		time.Sleep(time.Second) // a catalog without the channel would have arrived by now
		goal.put(2, 64)
		robot.follows("goal", 2, time.Second)
	})
}

// A push that waits to be offered again may end before that.
func TestEndedPushGrantsNoRead(t *testing.T) {
	inWorld(t, func(w *world) {
		export := rule.Grants{{Channels: []string{"goal"}, Hosts: []string{"base"}}}
		_, pc, _ := w.pushingGoal(Config{Export: export, Pushes: rule.Pushes{{Channel: "goal", Host: "robot"}}})
		slow := rule.Push{Channel: "goal", Host: "robot", QoS: rule.QoS{Budget: time.Second}}
		pc.node.loop.call(func() {
			pc.node.apply(Config{Export: export, Pushes: rule.Pushes{slow}})
			pc.node.apply(Config{Export: export})
			for _, l := range pc.node.links {
				if _, err := pc.node.permit(l, "goal", rule.QoS{}); err == nil {
					t.Errorf("%s may read the channel, want only base", l.host)
				}
			}
		})
	})
}

func TestEquivalentPushRuleKeepsSubscription(t *testing.T) {
	for _, again := range []rule.Push{
		{Channel: "goa?", Host: "robot"},
		{Channel: "goa?", Host: "robot", As: "{channel}"},
		{Channel: "goal", Host: "robot"},
	} {
		t.Run(again.Channel+" as "+again.As, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc, goal := w.pushingGoal(Config{Export: rule.Grants{}, Pushes: rule.Pushes{{Channel: "goa?", Host: "robot"}}})
				id := robot.subscription("goal")
				if err := pc.node.Apply(Config{Export: rule.Grants{}, Pushes: rule.Pushes{again}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				goal.put(2, 64)
				robot.follows("goal", 2, time.Second)
				if got := robot.subscription("goal"); got != id || robot.said("subscription refused") != 0 {
					t.Errorf("got subscription %d, want still %d, and log\n%s", got, id, robot.log)
				}
				if got := pc.node.Status().Pushes; len(got) != 1 {
					t.Errorf("got pushes %+v, want one", got)
				}
			})
		})
	}
}

func TestPushPatternIgnoresMissingChannel(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.host("pc", wire10ms).run(Config{Pushes: rule.Pushes{{Channel: "goal", Host: "robot"}}})
		if err := pc.node.Apply(Config{Pushes: rule.Pushes{{Channel: "goa?", Host: "robot"}}}); err != nil {
			t.Fatal(err)
		}
		if got := pc.node.Status().Pushes; len(got) != 0 {
			t.Errorf("got pushes %+v, want none", got)
		}
	})
}

func TestReloadedDenialEndsPush(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pushing()
		plan := pc.channel("plan", 8, 64)
		plan.put(1, 64)
		if err := pc.node.Push(w.t.Context(), rule.Push{Channel: "plan", Host: "robot"}); err != nil {
			t.Fatal(err)
		}
		robot.follows("plan", 1, time.Second)
		if err := pc.node.Apply(Config{Export: rule.Grants{}, Pushes: rule.Pushes{{Channel: "plan", Host: "*", Deny: true}}}); err != nil {
			t.Fatal(err)
		}
		if got := pc.node.Status().Pushes; len(got) != 0 {
			t.Errorf("got pushes %+v, want none", got)
		}
		plan.put(2, 64)
		time.Sleep(time.Second)
		if n, _ := robot.newest("plan"); n != 1 {
			t.Errorf("got frame %d after the denial, want none", n)
		}
	})
}

func TestWaitingPushReturnsDenyingRule(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.host("pc", wire10ms).run(Config{})
		pc.channel("plan", 8, 64).put(1, 64)
		time.Sleep(time.Second) // time to find the channel
		answer := make(chan error)
		go func() { answer <- pc.node.Push(w.t.Context(), rule.Push{Channel: "plan", Host: "robot"}) }()
		time.Sleep(time.Second)
		if err := pc.node.Apply(Config{Pushes: rule.Pushes{{Channel: "plan", Host: "*", Deny: true, From: "push[0]"}}}); err != nil {
			t.Fatal(err)
		}
		if err := <-answer; err == nil || !strings.Contains(err.Error(), "push[0] denies it") {
			t.Errorf("got %v, want the rule that denies it", err)
		}
	})
}

func TestPushIsAnsweredOnlyAfterAnOffer(t *testing.T) {
	events := &status.Journal{Log: slog.New(slog.DiscardHandler)}
	l := &link{host: "robot", warned: warned{limit: warner{events: events, now: func() time.Duration { return 0 }}}}
	p := &push{Push: rule.Push{Channel: "plan", Host: "robot"}}
	table := pushTable{list: []*push{p}, changed: func() {}}
	offer := func() { p.link, p.offerID = l, 7; p.become(pushOffered, "", "") }
	renew := func() { p.renew(p.Push) }
	accept := func() { table.answered(l, 7, "", "") }
	refuse := func() { table.answered(l, 7, "no", status.CauseAcceptRule) }
	grants := func(want bool) func() {
		return func() {
			if got := table.to(l, "plan") != nil; got != want {
				t.Errorf("in phase %d: grants %v, want %v", p.phase, got, want)
			}
		}
	}
	walk.Phases(t, pushTransitions, func() pushPhase { return p.phase }, []walk.Step[pushPhase]{
		{Do: refuse, Want: pushUnoffered},
		{Do: offer, Want: pushOffered},
		{Do: renew, Want: pushUnoffered},
		{Do: accept, Want: pushUnoffered}, // belongs to the former offer
		{Do: grants(true), Want: pushUnoffered},
		{Do: offer, Want: pushOffered},
		{Do: accept, Want: pushAccepted},
		{Do: func() { table.unlink(l) }, Want: pushUnoffered},
		{Do: grants(false), Want: pushUnoffered},
		{Do: offer, Want: pushOffered},
		{Do: refuse, Want: pushRefused},
		{Do: accept, Want: pushAccepted},
		{Do: refuse, Want: pushRefused},
		{Do: renew, Want: pushUnoffered},
		{Do: grants(false), Want: pushUnoffered},
		{Do: offer, Want: pushOffered},
		{Do: accept, Want: pushAccepted},
		{Do: offer, Want: pushOffered},
		{Do: refuse, Want: pushRefused},
		{Do: offer, Want: pushOffered},
	})
}
