package bridge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// reading returns a robot with these rules, and a PC that mirrors all of its channels.
func (w *world) reading(export rule.Grants) (robot, pc *host, imu *channel) {
	w.t.Helper()
	robot, pc = w.host("robot", wire10ms), w.host("pc", wire10ms)
	robot.run(Config{Export: export})
	imu = robot.channel("imu", 64, 64)
	imu.put(1, 64)
	pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}, robot)
	return robot, pc, imu
}

func TestChangedRulesApplyToRunningMirrors(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, imu := w.reading(nil)
		pc.follows("robot.imu", 1, time.Second)
		apply := func(export rule.Grants) {
			w.t.Helper()
			if err := robot.node.Apply(Config{Export: export}); err != nil {
				w.t.Fatal(err)
			}
		}
		apply(rule.Grants{{Channels: []string{"imu"}, Deny: true, Hosts: []string{"pc"}}, {Channels: []string{"*"}}})
		if got := robot.node.Status().Exports; len(got) != 0 { // before the peer can answer, since it may ignore the refusal
			t.Errorf("got the exports %+v after the denial, want none", got)
		}
		w.within(time.Second, "the refusal", func() bool { return pc.mirror("robot.imu").State == status.MirrorRefused })
		imu.put(2, 64)
		time.Sleep(time.Second)
		if n, _ := pc.newest("robot.imu"); n != 1 {
			t.Errorf("got frame %d after the denial, want none", n)
		}
		apply(rule.Grants{{Channels: []string{"*"}, QoS: rule.QoS{MaxRate: 2000}}})
		pc.follows("robot.imu", 2, time.Second)
		if got := robot.node.Status().Exports[0].QoS.MaxRate; got != 2000 {
			t.Errorf("got %v frames a second, want the rule's 2", got)
		}
		apply(rule.Grants{{Channels: []string{"*"}}})
		if got := robot.node.Status().Exports[0].QoS.MaxRate; got != 0 {
			t.Errorf("got %v frames a second, want no limit, as the PC requested", got)
		}
		apply(rule.Grants{})
		w.within(time.Second, "it is not offered any more", func() bool { return pc.mirror("robot.imu").State == status.MirrorWaiting })
	})
}

func TestInvalidConfigChangesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, imu := w.reading(nil)
		pc.follows("robot.imu", 1, time.Second)
		err := robot.node.Apply(Config{Export: rule.Grants{}, Mirrors: []rule.Mirror{{Host: "[", Channel: "imu"}}})
		if err == nil || !strings.Contains(err.Error(), "mirror[0]") {
			t.Errorf("got %v, want an error that names mirror[0]", err)
		}
		imu.put(2, 64)
		pc.follows("robot.imu", 2, time.Second)
	})
}

// Every frame of a channel with unchanged rules arrives, in one subscription, while the rules of
// all other channels change.
func TestReloadKeepsChannelsWithUnchangedRules(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, imu := w.reading(nil)
		joints := robot.channel("joints", 64, 64)
		joints.put(1, 64)
		pc.follows("robot.joints", 1, time.Second)
		id := pc.subscription("robot.imu")
		for i := range uint64(200) {
			imu.put(2+i, 64)
			time.Sleep(5 * time.Millisecond)
			if i%10 != 0 {
				continue
			}
			every := rule.QoS{Budget: time.Duration(1+i) * time.Millisecond, Mode: rule.Mode(i / 10 % 2)}
			mirrors := []rule.Mirror{{Host: "robot", Channel: "joints", QoS: every}, {Host: "robot", Channel: "*"}}
			if err := pc.node.Apply(Config{Mirrors: mirrors, Accept: rule.GrantTo("a*")}); err != nil {
				t.Fatal(err)
			}
			if err := robot.node.Apply(Config{Export: rule.Grants{{Channels: []string{"joints"}, QoS: rule.QoS{Priority: rule.Priority(1 + i%8)}}, {Channels: []string{"*"}}}}); err != nil {
				t.Fatal(err)
			}
		}
		pc.follows("robot.imu", 201, time.Second)
		time.Sleep(2 * time.Second) // time for the counters to settle
		m := pc.mirror("robot.imu")
		if m.Delivered+m.LateKept != 201 || m.Seq != 201 { // the first is late: it is older than the subscription
			t.Errorf("delivered %d of 201: %+v", m.Delivered, m.FrameCounters)
		}
		if again := pc.subscription("robot.imu"); again != id {
			t.Errorf("subscription %d, want still %d", again, id)
		}
	})
}

// An export rule that denies a channel takes precedence over relay: the channel is not passed on.
func TestExportDenialHoldsForRelayedMirrors(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, base, pc := w.host("robot", wire10ms), w.host("base", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		for _, name := range []string{"imu", "debug"} {
			robot.channel(name, 4, 64).put(1, 64)
		}
		denying := rule.Grants{{Channels: []string{"robot.debug"}, Hosts: []string{"pc"}, Deny: true, From: "export[0]"}, {Channels: []string{"*"}}}
		base.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}, Relay: []string{"*"}, Export: denying}, robot)
		base.follows("robot.debug", 1, 5*time.Second)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "base", Channel: "robot.debug"}, {Host: "base", Channel: "robot.imu"}}}, base)
		pc.follows("base.robot.imu", 1, 5*time.Second)
		w.within(5*time.Second, "the refusal", func() bool { return pc.mirror("base.robot.debug").State == status.MirrorRefused })
		if reason := pc.mirror("base.robot.debug").Reason; !strings.Contains(reason, "export[0]") {
			t.Errorf("got reason %q, want the rule", reason)
		}
		if n, _ := pc.newest("base.robot.debug"); n != 0 {
			t.Errorf("got frame %d of a channel that export denies, want none", n)
		}
	})
}

// subscription returns the id of the mirror's subscription.
func (h *host) subscription(name string) (id uint32) {
	h.node.loop.call(func() { id = h.node.mirrors.byName[name].subID })
	return id
}

func TestPushesObeyRulesOfBothHosts(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{Accept: rule.Grants{{Channels: []string{"goal"}, Hosts: []string{"planner"}, From: "accept[0]"}}})
		goal := pc.channel("goal", 8, 64)
		goal.put(1, 64)
		pc.channel("goat", 8, 64).put(1, 64)
		pc.run(Config{Export: rule.Grants{}, Pushes: []rule.Push{{Channel: "goat", Host: "*", Deny: true}, {Channel: "goa?", Host: "robot"}}}, robot)
		state := func(want status.PushState) func() bool {
			return func() bool { s := pc.node.Status().Pushes; return len(s) == 1 && s[0].State == want }
		}
		w.within(time.Second, "the refusal", state(status.PushRefused))
		if reason := pc.node.Status().Pushes[0].Reason; !strings.Contains(reason, "robot does not accept goal: accept[0] does not name the host pc") {
			t.Errorf("got %q, want the rule and the host", reason)
		}
		if err := robot.node.Apply(Config{Accept: rule.Grants{{Channels: []string{"goal"}, QoS: rule.QoS{Priority: 8}, FileMode: 0o600}}}); err != nil {
			t.Fatal(err)
		}
		robot.follows("goal", 1, time.Second)
		w.within(time.Second, "the push is accepted", state(status.PushAccepted))
		if got := robot.mirror("goal").QoS.Priority.Level(); got != 7 {
			t.Errorf("priority %v, want that of the rule", got)
		}
		if list, err := robot.dir.List(); err != nil || len(list) != 1 || list[0].Mode != 0o600 {
			t.Errorf("got %+v, %v, want one file of mode 0600", list, err)
		}
		if err := robot.node.Apply(Config{}); err != nil {
			t.Fatal(err)
		}
		w.within(time.Second, "the refusal", state(status.PushRefused))
		goal.put(2, 64)
		time.Sleep(time.Second)
		if n, _ := robot.newest("goal"); n != 1 {
			t.Errorf("got frame %d after the push was refused, want none", n)
		}
		if err := pc.node.Apply(Config{Export: rule.Grants{}}); err != nil {
			t.Fatal(err)
		}
		if got := pc.node.Status().Pushes; len(got) != 0 {
			t.Errorf("got %+v, want no push", got)
		}
	})
}

func TestFirstMatchingRuleMakesMirror(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		for _, name := range []string{"imu", "debug1", "joints"} {
			robot.channel(name, 4, 64).put(1, 64)
		}
		pc.run(Config{Mirrors: []rule.Mirror{
			{Host: "robot", Channel: "i*", As: "{channel}.of.{host}", FileMode: 0o600},
			{Host: "*", Channel: "*"},
			{Host: "robot", Channel: "imu", QoS: rule.QoS{Budget: 1}},
			{Host: "*", Channel: "debug*", Deny: true, From: "mirror[3]"},
		}}, robot)
		pc.follows("imu.of.robot", 1, time.Second)
		pc.follows("robot.joints", 1, time.Second)
		if got := len(pc.node.Status().Mirrors); got != 2 {
			t.Errorf("%d mirrors, want 2: %+v", got, pc.node.Status().Mirrors)
		}
		if err := pc.node.Mirror(rule.Mirror{Host: "robot", Channel: "debug1"}); err == nil || !strings.Contains(err.Error(), "mirror[3] denies it") {
			t.Errorf("got %v, want the rule that denies it", err)
		}
	})
}

func TestDeniedChannelIsMarkedAndNotRequestedByPattern(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		shut := rule.Grants{{Channels: []string{"debug"}, Hosts: []string{"planner"}, From: "export[0]"}, {Channels: []string{"*"}}}
		robot.run(Config{Export: shut})
		robot.channel("imu", 4, 64).put(1, 64)
		robot.channel("debug", 4, 64).put(1, 64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}, robot)
		pc.follows("robot.imu", 1, time.Second)
		closed := func() bool {
			for _, c := range pc.node.Channels() {
				if c.Channel == "debug" {
					return c.Closed
				}
			}
			t.Fatalf("debug is not listed")
			return false
		}
		if !closed() || pc.mirror("robot.debug").State != "" || robot.said("refused") != 0 {
			t.Errorf("got closed %v, mirror %+v and log\n%s\nwant the channel marked and not requested", closed(), pc.mirror("robot.debug"), robot.log)
		}
		if err := pc.node.Mirror(rule.Mirror{Host: "robot", Channel: "debug"}); err != nil { // a request that names the channel gets the reason
			t.Fatal(err)
		}
		w.within(time.Second, "the refusal", func() bool { return pc.mirror("robot.debug").State == status.MirrorRefused })
		if reason := pc.mirror("robot.debug").Reason; !strings.Contains(reason, "robot refuses") || !strings.Contains(reason, "export[0] does not name the host pc") {
			t.Errorf("got reason %q, want the rule", reason)
		}
		for i := range 50 { // changes that make both nodes reconcile
			robot.channel(fmt.Sprint("other", i), 4, 64)
			time.Sleep(20 * time.Millisecond)
		}
		if n := strings.Count(robot.log.String(), "channel=debug"); n != 1 {
			t.Errorf("got %d requests for the denied channel, want one", n)
		}
		if err := robot.node.Apply(Config{}); err != nil {
			t.Fatal(err)
		}
		pc.follows("robot.debug", 1, time.Second)
		if closed() {
			t.Error("the channel is marked although the rule is gone")
		}
	})
}

// A program outside the network writes only where no mirror does: into former mirrors and channels
// that adopt names. It is the only writer; a mirror waits for its end.
func TestForeignWriterExcludesMirror(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, imu := w.reading(nil)
		goal := pc.channel("goal", 4, 64)
		mine := localach.Tag{Node: [16]byte{1}, Channel: 1}
		refused := func(channel string, tag localach.Tag, want string) {
			w.t.Helper()
			if _, err := pc.node.Claim(channel, tag); err == nil || !strings.Contains(err.Error(), want) {
				w.t.Errorf("%s: got %v, want %q", channel, err, want)
			}
		}
		pc.follows("robot.imu", 1, time.Second)
		refused("robot.imu", mine, "a mirror that robot writes")
		refused("goal", localach.Tag{}, "adopt does not name it")
		if err := pc.node.Apply(Config{Mirrors: pc.cfg.Mirrors, Adopt: []string{"goal", "robot.cam"}}); err != nil {
			w.t.Fatal(err)
		}
		release, err := pc.node.Claim("goal", localach.Tag{})
		if err != nil {
			w.t.Fatal(err)
		}
		refused("goal", localach.Tag{}, "already has a writer")
		release()
		if release, err = pc.node.Claim("robot.cam", mine); err != nil {
			w.t.Fatal(err)
		}
		cam := robot.channel("cam", 4, 64)
		cam.put(7, 64)
		time.Sleep(2 * time.Second)
		if n, _ := pc.newest("robot.cam"); n != 0 {
			w.t.Errorf("the mirror has frame %d beside another writer", n)
		}
		release()
		pc.follows("robot.cam", 7, 2*time.Second)
		_, _ = imu, goal
	})
}

// A metadata channel has a tag of this daemon, as a mirror does, but no other program can claim to
// write it.
func TestForeignWriterCannotClaimMetadataChannel(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{})
		robot.channel("imu", 4, 64).put(1, 64)
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu", QoS: rule.QoS{Meta: true}}}}, robot)
		pc.follows("robot.imu", 1, 2*time.Second)
		ch, err := pc.dir.Open("robot.imu" + rule.MetaSuffix)
		if err != nil {
			t.Fatal(err)
		}
		defer ch.Close()
		if _, err := pc.node.Claim(ch.Name(), ch.OwnTag()); err == nil || !strings.Contains(err.Error(), "is not a mirror") {
			t.Errorf("Claim(%s) = %v, want that it is not a mirror", ch.Name(), err)
		}
	})
}

// Commands are not read or written by a protocol that can neither date nor authenticate them.
func TestCommandChannelsAreRecognized(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		command := rule.QoS{Class: rule.Command}
		robot.run(Config{Accept: rule.Grants{{Channels: []string{"goal"}, QoS: command}}})
		robot.channel("stop", 4, 64)
		robot.channel("imu", 4, 64)
		pc.run(Config{
			Mirrors: []rule.Mirror{{Host: "robot", Channel: "stop", QoS: command}, {Host: "robot", Channel: "imu"}},
			Pushes:  rule.Pushes{{Host: "robot", Channel: "drive", QoS: command}}, // the robot does not accept it
		}, robot)
		w.within(time.Second, "the mirrors", func() bool {
			return pc.mirror("robot.stop").State == status.MirrorLive && pc.mirror("robot.imu").State == status.MirrorLive
		})
		for name, c := range map[string]struct {
			at   *host
			want bool
		}{"goal": {robot, true}, "stop": {robot, true}, "imu": {robot, false}, "drive": {pc, true}, "robot.stop": {pc, true}, "robot.imu": {pc, false}} {
			if got := c.at.node.CarriesCommands(name); got != c.want {
				w.t.Errorf("%s: got %v, want %v", name, got, c.want)
			}
		}
	})
}
