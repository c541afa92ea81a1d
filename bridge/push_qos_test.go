package bridge

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/stamps"
	"achbridge/bridge/status"
	"achbridge/wire"
)

// pushes returns a PC that pushes plan to a robot, which accepts it by a rule.
func (w *world) pushes(found rule.Grant, qos rule.QoS) (robot, pc *host, err error) {
	w.t.Helper()
	robot, pc = w.host("robot", wire10ms), w.host("pc", wire10ms)
	found.Channels, found.From = []string{"plan"}, "accept[0]"
	robot.run(Config{Accept: rule.Grants{found}})
	pc.run(Config{}, robot)
	w.within(time.Second, "link", func() bool { return len(pc.node.Status().Links) == 1 })
	pc.channel("plan", 4, 64).put(1, 64)
	return robot, pc, pc.node.Push(w.t.Context(), rule.Push{Channel: "plan", Host: "robot", QoS: qos})
}

// asked waits until the robot's mirror requests qos, and returns the QoS that the PC grants.
func asked(robot, pc *host, qos rule.QoS) (granted rule.QoS) {
	robot.w.t.Helper()
	robot.w.within(time.Second, "the mirror", func() bool { m := robot.mirror("plan"); return m.State == status.MirrorLive && m.QoS == qos })
	robot.w.within(time.Second, "the subscription", func() bool {
		list := pc.node.Status().Exports
		if len(list) == 1 {
			granted = list[0].QoS
		}
		return len(list) == 1 && granted.Budget == qos.Budget
	})
	return granted
}

func TestAcceptRuleOverridesPushQoS(t *testing.T) {
	found := rule.Grant{QoS: rule.QoS{Budget: 50 * milli, Class: rule.Command, MaxRate: 50_000}, Says: []string{"budget", "class", "max_rate", "compress"}}
	inWorld(t, func(w *world) {
		robot, pc, err := w.pushes(found, rule.QoS{Budget: time.Second, MaxRate: 5_000, Priority: 3, Compress: rule.CompressZstd})
		if err != nil {
			t.Fatal(err)
		}
		granted := asked(robot, pc, rule.QoS{Budget: 50 * milli, Class: rule.Command, MaxRate: 50_000, Priority: 3})
		if granted.MaxRate != 5_000 {
			t.Errorf("the peer gets %v frames a second, want the 5 that the push allows", granted.MaxRate)
		}
	})
}

// A peer cannot lengthen the budget of a channel that the rule makes a command channel.
func TestPushCannotExtendCommandBudget(t *testing.T) {
	for asks, want := range map[time.Duration]time.Duration{10 * time.Second: 0, 30 * milli: 30 * milli} {
		got, err := rule.Grant{QoS: rule.QoS{Class: rule.Command}}.ForPush(rule.QoS{Budget: asks})
		if err != nil || got.Budget != want {
			t.Errorf("requested %v: got %v, %v, want %v", asks, got.Budget, err, want)
		}
	}
}

func TestPushQoSContradictingRuleIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, _, err := w.pushes(rule.Grant{QoS: rule.QoS{Class: rule.Command}}, rule.QoS{Mode: rule.Every})
		if err == nil || !strings.Contains(err.Error(), "accept[0] and what the push asks for contradict each other: mode every") {
			t.Errorf("got %v, want a refusal that names the rule and the contradiction", err)
		}
		if list := robot.node.Status().Mirrors; len(list) != 0 {
			t.Errorf("got mirrors %+v, want none", list)
		}
	})
}

func TestPushQoSChangesWithoutGap(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, err := w.pushes(rule.Grant{}, rule.QoS{Budget: 20 * milli, Priority: 8})
		if err != nil {
			t.Fatal(err)
		}
		asked(robot, pc, rule.QoS{Budget: 20 * milli, Priority: 8})
		next := rule.QoS{Budget: 30 * milli, MaxRate: 2_000}
		if err := pc.node.Push(w.t.Context(), rule.Push{Channel: "plan", Host: "robot", QoS: next}); err != nil {
			t.Fatal(err)
		}
		if granted := asked(robot, pc, next); granted != next {
			t.Errorf("granted %+v, want %+v", granted, next)
		}
		if list := pc.node.Status().Pushes; len(list) != 1 || list[0].State != status.PushAccepted {
			t.Errorf("got pushes %+v, want one, accepted", list)
		}
		if n := strings.Count(robot.log.String(), "subscription"); n != 0 {
			t.Errorf("the subscription was ended %d times:\n%s", n, robot.log)
		}
	})
}

func TestConfiguredPushGetsNewQoSOnReload(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{Accept: rule.Grants{{Channels: []string{"plan"}, QoS: rule.QoS{MaxRate: 50_000}}}})
		cfg := Config{Pushes: rule.Pushes{{Channel: "pl*", Host: "robot", QoS: rule.QoS{Budget: 20 * milli}}}}
		pc.run(cfg, robot)
		pc.channel("plan", 4, 64).put(1, 64)
		asked(robot, pc, rule.QoS{Budget: 20 * milli, MaxRate: 50_000})
		cfg.Pushes = rule.Pushes{{Channel: "pl*", Host: "robot", QoS: rule.QoS{Budget: 20 * milli, MaxRate: 2_000}}}
		if err := pc.node.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		w.within(time.Second, "the new limit", func() bool { // the robot is not informed of it
			list := pc.node.Status().Exports
			return len(list) == 1 && list[0].QoS.MaxRate == 2_000
		})
		cfg.Pushes[0].QoS.Budget = 40 * milli
		if err := pc.node.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		asked(robot, pc, rule.QoS{Budget: 40 * milli, MaxRate: 50_000})
	})
}

func TestPushCannotSetReceiverOptions(t *testing.T) {
	p := rule.Push{Channel: "plan", Host: "robot", QoS: rule.QoS{Deadline: time.Second}}
	if err := p.Check(); err == nil || !strings.Contains(err.Error(), "set them in the accept rule of robot") {
		t.Errorf("got %v, want where to set a deadline", err)
	}
}

func TestRefusedMirrorShowsOriginReason(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.pair(wire10ms)
		robot.channel("imu", 4, 64).put(1, 64)
		pc.follows("robot.imu", 1, time.Second)
		pc.node.loop.call(func() { // as a newer version would request it
			m := pc.node.mirrors.byName["robot.imu"]
			m.link.send(wire.Update{ID: m.subID, QoS: wire.QoS{Class: 7}})
		})
		w.within(time.Second, "the refusal", func() bool { return pc.mirror("robot.imu").State == status.MirrorRefused })
		const want = "robot refuses: class 7 is not known here: update the older achbridge"
		if got := pc.mirror("robot.imu").Reason; !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// The option stamps of a push is that of the mirror, unless the accept rule decides otherwise.
func TestPushRequestsStamps(t *testing.T) {
	for name, c := range map[string]struct {
		accept rule.Grant
		want   stamps.Rule
	}{
		"no rule":      {rule.Grant{}, "sns"},
		"another rule": {rule.Grant{QoS: rule.QoS{Stamps: "hubo"}, Says: []string{"stamps"}}, "hubo"},
		"none":         {rule.Grant{Says: []string{"stamps"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc, err := w.pushes(c.accept, rule.QoS{Stamps: "sns"})
				if err != nil {
					t.Fatal(err)
				}
				w.within(2*second, "the mirror", func() bool {
					m := robot.mirror("plan")
					return m.State == status.MirrorLive && m.QoS.Stamps == c.want && (m.Stamps != nil) == (c.want != "")
				})
				if err := pc.node.Push(w.t.Context(), rule.Push{Channel: "plan", Host: "robot"}); err != nil {
					t.Fatal(err)
				}
				w.within(2*second, "the push without the option", func() bool { return robot.mirror("plan").QoS.Stamps == c.accept.QoS.Stamps })
			})
		})
	}
}

// A host of an older version would ignore the option and put the frames unchanged.
func TestPushWithStampsIsNotOfferedToOlderHost(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.host("pc", siegeWire)
		pc.channel("plan", 4, 64).put(1, 64)
		pc.run(Config{Pushes: []rule.Push{{Channel: "plan", Host: "robot", QoS: rule.QoS{Stamps: "sns"}}}})
		robot := w.member("robot", pc)
		w.within(5*second, "the reason", func() bool { return strings.Contains(pc.push().Reason, "update robot") })
		time.Sleep(5 * second)
		if list := messages[wire.Offer](robot); len(list) != 0 || pc.push().State != status.PushWaiting {
			t.Errorf("got the offers %v, state %s, want none", list, pc.push().State)
		}
	})
}
