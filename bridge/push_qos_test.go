package bridge

import (
	"strings"
	"testing"
	"time"
)

// pushes is a PC that pushes plan to a robot, which accepts it by a rule.
func (w *world) pushes(rule Grant, qos QoS) (robot, pc *host, err error) {
	w.t.Helper()
	robot, pc = w.host("robot", wire10ms), w.host("pc", wire10ms)
	rule.Channels, rule.From = []string{"plan"}, "accept[0]"
	robot.run(Config{Accept: Grants{rule}})
	pc.run(Config{}, robot)
	w.within(time.Second, "link", func() bool { return len(pc.node.Status().Links) == 1 })
	pc.channel("plan", 4, 64).put(1, 64)
	return robot, pc, pc.node.Push(w.t.Context(), Push{Channel: "plan", Host: "robot", QoS: qos})
}

// asked waits until the robot's mirror asks for qos, and returns what the PC grants.
func asked(robot, pc *host, qos QoS) (granted QoS) {
	robot.w.t.Helper()
	robot.w.within(time.Second, "the mirror", func() bool { m := robot.mirror("plan"); return m.State == stateLive && m.QoS == qos })
	robot.w.within(time.Second, "the subscription", func() bool {
		list := pc.node.Status().Exports
		if len(list) == 1 {
			granted = list[0].QoS
		}
		return len(list) == 1 && granted.Budget == qos.Budget
	})
	return granted
}

func TestMirrorOfAPushGetsTheQoSOfThePush(t *testing.T) {
	inWorld(t, func(w *world) {
		qos := QoS{Budget: 20 * milli, Priority: 8, Class: Command}
		robot, pc, err := w.pushes(Grant{}, qos)
		if err != nil {
			t.Fatal(err)
		}
		if granted := asked(robot, pc, qos); granted != qos {
			t.Errorf("granted %+v, want %+v", granted, qos)
		}
	})
}

func TestRuleThatAcceptsAPushGoesBeforeItsQoS(t *testing.T) {
	rule := Grant{QoS: QoS{Budget: 50 * milli, Class: Command, MaxRate: 50_000}, Says: []string{"budget", "class", "max_rate", "compress"}}
	inWorld(t, func(w *world) {
		robot, pc, err := w.pushes(rule, QoS{Budget: time.Second, MaxRate: 5_000, Priority: 3, Compress: CompressZstd})
		if err != nil {
			t.Fatal(err)
		}
		granted := asked(robot, pc, QoS{Budget: 50 * milli, Class: Command, MaxRate: 50_000, Priority: 3})
		if granted.MaxRate != 5_000 {
			t.Errorf("the peer gets %v frames a second, want the 5 that the push allows", granted.MaxRate)
		}
	})
}

// What the rule calls a command does not get older because the peer says so.
func TestPushCannotStretchTheBudgetOfACommand(t *testing.T) {
	for asks, want := range map[time.Duration]time.Duration{10 * time.Second: 0, 30 * milli: 30 * milli} {
		got, err := Grant{QoS: QoS{Class: Command}}.over(QoS{Budget: asks})
		if err != nil || got.Budget != want {
			t.Errorf("asked for %v: got %v, %v, want %v", asks, got.Budget, err, want)
		}
	}
}

func TestPushWhoseQoSContradictsTheRuleIsRefusedAndSaysWhy(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, _, err := w.pushes(Grant{QoS: QoS{Class: Command}}, QoS{Mode: Every})
		if err == nil || !strings.Contains(err.Error(), "accept[0] and what the push asks for contradict each other: mode every") {
			t.Errorf("got %v, want a refusal that names the rule and the contradiction", err)
		}
		if list := robot.node.Status().Mirrors; len(list) != 0 {
			t.Errorf("got mirrors %+v, want none", list)
		}
	})
}

func TestPushChangesItsQoSWithoutAGap(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, err := w.pushes(Grant{}, QoS{Budget: 20 * milli, Priority: 8})
		if err != nil {
			t.Fatal(err)
		}
		asked(robot, pc, QoS{Budget: 20 * milli, Priority: 8})
		next := QoS{Budget: 30 * milli, MaxRate: 2_000}
		if err := pc.node.Push(w.t.Context(), Push{Channel: "plan", Host: "robot", QoS: next}); err != nil {
			t.Fatal(err)
		}
		if granted := asked(robot, pc, next); granted != next {
			t.Errorf("granted %+v, want %+v", granted, next)
		}
		if list := pc.node.Status().Pushes; len(list) != 1 || list[0].State != pushAccepted {
			t.Errorf("got pushes %+v, want one, accepted", list)
		}
		if n := strings.Count(robot.log.String(), "subscription"); n != 0 {
			t.Errorf("the subscription was ended %d times:\n%s", n, robot.log)
		}
	})
}

func TestPushOfTheConfigurationTakesItsNewQoS(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{Accept: Grants{{Channels: []string{"plan"}, QoS: QoS{MaxRate: 50_000}}}})
		cfg := Config{Pushes: Pushes{{Channel: "pl*", Host: "robot", QoS: QoS{Budget: 20 * milli}}}}
		pc.run(cfg, robot)
		pc.channel("plan", 4, 64).put(1, 64)
		asked(robot, pc, QoS{Budget: 20 * milli, MaxRate: 50_000})
		cfg.Pushes = Pushes{{Channel: "pl*", Host: "robot", QoS: QoS{Budget: 20 * milli, MaxRate: 2_000}}}
		if err := pc.node.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		w.within(time.Second, "the new limit", func() bool { // of which the robot hears nothing
			list := pc.node.Status().Exports
			return len(list) == 1 && list[0].QoS.MaxRate == 2_000
		})
		cfg.Pushes[0].QoS.Budget = 40 * milli
		if err := pc.node.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		asked(robot, pc, QoS{Budget: 40 * milli, MaxRate: 50_000})
	})
}

func TestPushCannotAskForWhatIsTheReceiversAlone(t *testing.T) {
	p := Push{Channel: "plan", Host: "robot", QoS: QoS{Deadline: time.Second}}
	if err := p.Check(); err == nil || !strings.Contains(err.Error(), "set them in the rule by which robot accepts it") {
		t.Errorf("got %v, want where to set a deadline", err)
	}
}
