package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/operator"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/via"
	"achbridge/localach"
	"achbridge/testnet/need"
	"achbridge/wire"
)

// operated is a robot whose channel goal has an operator lock, and two operators, a and b, that push into it all the time.
type operated struct {
	*world
	robot, a, b *host
	hub         *worldHub // nil in worlds without a hub
	rules       rule.Grants
	began       time.Time
	stop        chan struct{}

	mu      sync.Mutex
	state   []byte // stored locks of the robot
	noDisk  error  // error of the next writes of the state
	changes []lockChange
	checker *lockChecker
}

// lockChange is a stored change of the lock.
type lockChange struct {
	seq    uint64 // newest frame in the robot's channel when the change was stored
	holder string // empty means nobody
}

// lockRules let a and b take goal, also by force.
func lockRules() rule.Grants {
	rules := goalRules()
	rules[0].From = "accept[0]"
	rules[0].Operator = &rule.Operator{Hosts: []string{"a", "b"}, Force: []string{"a", "b"}}
	return rules
}

// inOperation runs run in a world with a robot and two operators.
func inOperation(t *testing.T, rules rule.Grants, run func(o *operated)) {
	t.Helper()
	inWorld(t, func(w *world) { run(w.operated(rules, nil)) })
}

func (w *world) operated(rules rule.Grants, hub *worldHub) *operated {
	w.t.Helper()
	o := &operated{world: w, hub: hub, rules: rules, began: time.Now(), stop: make(chan struct{})}
	o.checker = &lockChecker{o: o}
	o.robot, o.a, o.b = w.host("robot", wire10ms), w.host("a", wire10ms), w.host("b", wire10ms)
	o.startRobot()
	var putting sync.WaitGroup
	for i, h := range []*host{o.a, o.b} {
		goal := h.channel("goal", 1024, 64)
		o.start(h)
		putting.Go(func() { o.put(goal, uint64(i+1)) })
	}
	w.t.Cleanup(func() {
		close(o.stop)
		putting.Wait()
		if o.checker.ch != nil {
			o.checker.ch.Close()
		}
	})
	for _, h := range []*host{o.a, o.b} {
		o.within(10*time.Second, "the links", func() bool { return len(h.node.Status().Links) > 0 })
	}
	return o
}

// put puts frames of an operator into its own channel. Their numbers name the operator.
func (o *operated) put(goal *channel, who uint64) {
	for count := uint64(1); ; count++ {
		select {
		case <-o.stop:
			return
		case <-time.After(goalPeriod):
			goal.put(who<<32|count, 64)
		}
	}
}

func (o *operated) startRobot() {
	o.mu.Lock()
	state := slices.Clone(o.state)
	o.mu.Unlock()
	cfg := Config{Accept: o.rules, Locks: state, KeepLocks: o.keep}
	o.run(o.robot, cfg, nil, []string{"a", "b"})
}

func (o *operated) start(h *host) {
	o.run(h, Config{Pushes: rule.Pushes{{Channel: "goal", Host: "robot"}}}, []*host{o.robot}, []string{"robot"})
}

func (o *operated) run(h *host, cfg Config, direct []*host, atHub []string) {
	cfg.testing.monotonic = func() time.Duration { return time.Hour + time.Since(o.began) }
	if o.hub == nil {
		h.run(cfg, direct...)
		return
	}
	cfg.Hub = o.hub.as(h.name, 0)
	h.run(cfg)
	h.knows(atHub, direct...)
}

// keep stores the robot's locks, as the node calls it.
func (o *operated) keep(text []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.noDisk != nil {
		return o.noDisk
	}
	table, err := operator.Restore(text, o.robot.machine.Boot, time.Hour+time.Since(o.began)+time.Duration(o.robot.slept.Load()))
	if err != nil {
		o.t.Errorf("the stored locks cannot be read: %v\n%s", err, text)
	}
	o.state = slices.Clone(text)
	o.changes = append(o.changes, lockChange{o.checker.seq(), table.Get("goal").Holder.Host})
	return nil
}

// take takes goal for a host.
func (o *operated) take(h *host, limit time.Duration, force bool) (status.Lock, error) {
	return h.node.Take(o.t.Context(), rule.Address{Host: "robot", Channel: "goal"}, limit, force)
}

// takes fails unless a host can take goal.
func (o *operated) takes(h *host, force bool) {
	o.t.Helper()
	lock, err := o.take(h, 0, force)
	if err != nil || lock.Holder != h.name || !lock.Mine {
		o.t.Fatalf("%s takes goal: got %+v, %v", h.name, lock, err)
	}
}

// lockChecker reads the robot's channel and checks that each frame was put by the holder.
type lockChecker struct {
	o      *operated
	mu     sync.Mutex
	ch     *localach.Channel
	r      *localach.Reader
	buf    []byte
	frames map[string]int // number of frames by operator; "stop" for the safe frame
	last   string         // who put the newest frame
	errors int
}

// open opens the robot's channel when it exists. c.mu must be held.
func (c *lockChecker) open() bool {
	if c.ch != nil {
		return true
	}
	ch, err := c.o.robot.dir.TryOpen("goal")
	if err != nil {
		return false
	}
	c.ch, c.r, c.buf, c.frames = ch, ch.Reader(), make([]byte, 1024*64), map[string]int{}
	return true
}

// seq returns the number of the newest frame in the robot's channel.
func (c *lockChecker) seq() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open() {
		return 0
	}
	return c.ch.LastSeq()
}

// check checks all new frames.
func (c *lockChecker) check() {
	c.o.mu.Lock()
	changes := slices.Clone(c.o.changes)
	c.o.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open() {
		return
	}
	for c.ch.LastSeq() > c.r.Seq() {
		if _, err := c.r.NextOldest(c.buf, 0); errors.Is(err, os.ErrDeadlineExceeded) {
			return
		} else if err != nil {
			c.o.t.Fatal(err)
		}
		holder, author := "", ""
		for _, change := range changes {
			if change.seq < c.r.Seq() {
				holder = change.holder
			}
		}
		switch number := binary.LittleEndian.Uint64(c.buf); {
		case number == stopNumber:
			author = "stop"
		default:
			author = []string{"?", "a", "b"}[number>>32]
		}
		c.frames[author]++
		if author != "stop" && c.last != "" && c.last != "stop" && c.last != author {
			c.o.t.Errorf("at %v: frame %d is of %s, without a safe frame after %s", time.Since(c.o.began), c.r.Seq(), author, c.last)
		}
		c.last = author
		if author != "stop" && author != holder {
			if c.errors++; c.errors < 5 {
				c.o.t.Errorf("at %v: frame %d is of %s, and %q holds the lock", time.Since(c.o.began), c.r.Seq(), author, holder)
			}
		}
	}
}

// watch checks the robot's channel for a while.
func (o *operated) watch(long time.Duration) {
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		o.checker.check()
	}
}

// feeds waits until an operator has put the newest frame.
func (o *operated) feeds(who string, limit time.Duration) time.Duration {
	o.t.Helper()
	return o.within(limit, who+" feeds goal", func() bool { o.checker.check(); return o.checker.last == who })
}

func (o *operated) push(h *host) status.Push {
	for _, p := range h.node.Status().Pushes {
		return p
	}
	return status.Push{}
}

func TestOnlyTheHolderPushes(t *testing.T) {
	inOperation(t, lockRules(), func(o *operated) {
		o.within(time.Second, "both wait", func() bool {
			return o.push(o.a).Cause == status.CauseOperator && o.push(o.b).Cause == status.CauseOperator
		})
		if p := o.push(o.a); p.State != status.PushRefused || p.Reason != "nobody holds it; take it: achbridge take robot/goal" {
			o.t.Errorf("got %+v, want that nobody holds it", p)
		}
		o.takes(o.a, false)
		o.t.Logf("a feeds goal %v after its take", o.feeds("a", time.Second))
		o.watch(time.Second)
		if _, err := o.take(o.b, 0, false); err == nil || !strings.Contains(err.Error(), "take robot/goal: a holds it since ") || !strings.HasSuffix(err.Error(), "achbridge take robot/goal --force") {
			o.t.Errorf("got %v, want that a holds it", err)
		}
		o.within(time.Second, "b's push names a", func() bool { return strings.HasPrefix(o.push(o.b).Reason, "a holds it since ") })
		o.takes(o.b, true)
		o.t.Logf("b feeds goal %v after its take by force", o.feeds("b", time.Second))
		o.watch(time.Second)
		if o.checker.frames["stop"] != 1 {
			o.t.Errorf("got %d safe frames, want one between the two operators", o.checker.frames["stop"])
		}
		if p := o.push(o.a); p.State != status.PushRefused || !strings.HasPrefix(p.Reason, "b holds it") {
			o.t.Errorf("got %+v, want that a is refused", p)
		}
	})
}

func TestLockPassesByReleaseAndItsEnd(t *testing.T) {
	inOperation(t, lockRules(), func(o *operated) {
		goal := rule.Address{Host: "robot", Channel: "goal"}
		if _, err := o.take(o.a, 2*time.Second, false); err != nil {
			o.t.Fatal(err)
		}
		o.feeds("a", time.Second)
		lock, err := o.a.node.Release(o.t.Context(), goal, "b")
		if err != nil || lock.Holder != "b" || lock.Mine || lock.LeftS == nil {
			o.t.Fatalf("got %+v, %v, want b, until the same end", lock, err)
		}
		o.feeds("b", time.Second)
		o.watch(3 * time.Second)
		lock, err = o.a.node.Holder(o.t.Context(), goal)
		if err != nil || lock.Holder != "" || lock.State != "nobody" {
			o.t.Errorf("got %+v, %v, want nobody after the end", lock, err)
		}
		if _, err := o.a.node.Release(o.t.Context(), goal, ""); err == nil || !strings.Contains(err.Error(), "nobody holds it") {
			o.t.Errorf("got %v, want that nobody holds it", err)
		}
		o.takes(o.a, false)
		o.feeds("a", time.Second)
		if _, err := o.b.node.Release(o.t.Context(), goal, ""); err == nil || !strings.Contains(err.Error(), "a holds it") {
			o.t.Errorf("got %v, want that only a can release it", err)
		}
		if _, err := o.a.node.Release(o.t.Context(), goal, ""); err != nil {
			o.t.Error(err)
		}
		o.watch(time.Second)
		if o.checker.last != "stop" {
			o.t.Errorf("the newest frame is of %s, want the safe frame", o.checker.last)
		}
	})
}

func TestHolderKeepsLockInGrace(t *testing.T) {
	for name, c := range map[string]struct {
		lose  func(o *operated)
		keeps bool
	}{
		"short cut":         {func(o *operated) { o.change("a", "cut"); o.watch(700 * time.Millisecond); o.change("a", "up") }, true},
		"long cut":          {func(o *operated) { o.change("a", "cut"); o.watch(1300 * time.Millisecond); o.change("a", "up") }, false},
		"restart":           {func(o *operated) { o.a.stop(); o.start(o.a) }, true},
		"restart of robot":  {func(o *operated) { o.robot.stop(); o.watch(300 * time.Millisecond); o.startRobot() }, true},
		"reboot of robot":   {func(o *operated) { o.robot.stop(); o.robot.machine.Boot[3]++; o.startRobot() }, false},
		"reboot of a":       {func(o *operated) { o.a.stop(); o.a.machine.Boot[3]++; o.start(o.a); o.watch(2 * time.Second) }, false},
		"damaged state":     {func(o *operated) { o.robot.stop(); o.state = o.state[:len(o.state)-9]; o.startRobot() }, false},
		"suspend of robot":  {func(o *operated) { o.robot.slept.Add(int64(time.Minute)); o.watch(time.Second) }, false},
		"another of a name": {func(o *operated) { o.a.stop(); o.a.id[7]++; o.start(o.a); o.watch(2 * time.Second) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inOperation(t, lockRules(), func(o *operated) {
				o.takes(o.a, false)
				o.feeds("a", time.Second)
				c.lose(o)
				held := func() string {
					lock, _ := o.robot.node.Holder(o.t.Context(), rule.Address{Host: "robot", Channel: "goal"})
					return lock.Holder
				}
				if got := held() == "a"; got != c.keeps {
					o.t.Fatalf("a keeps the lock: %v, want %v", got, c.keeps)
				}
				if c.keeps {
					before := o.checker.frames["a"]
					o.within(5*time.Second, "a feeds goal again", func() bool { o.checker.check(); return o.checker.frames["a"] > before+20 })
					if _, err := o.take(o.b, 0, false); err == nil {
						o.t.Error("b took it without force")
					}
					return
				}
				o.within(10*time.Second, "b's link", func() bool { _, err := o.take(o.b, 0, false); return err == nil })
				o.feeds("b", time.Second)
				o.watch(2 * time.Second)
				if o.checker.last != "b" || held() != "b" {
					o.t.Errorf("%s feeds goal, and %s holds it, want b", o.checker.last, held())
				}
			})
		})
	}
}

func TestTakeIsRefusedIfItCannotBeStored(t *testing.T) {
	inOperation(t, lockRules(), func(o *operated) {
		o.takes(o.a, false)
		o.feeds("a", time.Second)
		o.mu.Lock()
		o.noDisk = errors.New("no space left on device")
		o.mu.Unlock()
		if _, err := o.take(o.b, 0, true); err == nil || !strings.Contains(err.Error(), "the lock cannot be stored: no space left on device") {
			o.t.Errorf("got %v, want that the lock cannot be stored", err)
		}
		before := o.checker.frames["a"]
		o.watch(time.Second)
		if o.checker.frames["a"] < before+80 {
			o.t.Errorf("got %d frames of a in a second, want that it goes on", o.checker.frames["a"]-before)
		}
		if _, err := o.a.node.Release(o.t.Context(), rule.Address{Host: "robot", Channel: "goal"}, ""); err != nil {
			o.t.Error(err)
		}
		o.mu.Lock()
		o.noDisk = nil
		o.mu.Unlock()
		o.watch(time.Second)
		if n := len(o.changes); o.changes[n-1].holder != "" {
			o.t.Error("the release was not stored later")
		}
	})
}

func TestTakeIsRefusedWithReason(t *testing.T) {
	inOperation(t, lockRules(), func(o *operated) {
		goal := rule.Address{Host: "robot", Channel: "goal"}
		o.rules[0].Operator.Force = nil
		o.rules[0].Operator.Hosts = []string{"a"}
		o.rules = append(o.rules, rule.Grant{Channels: []string{"plan"}, From: "accept[1]"})
		if err := o.robot.node.Apply(Config{Accept: o.rules}); err != nil {
			o.t.Fatal(err)
		}
		o.takes(o.a, false)
		for name, c := range map[string]struct {
			ask  func() error
			want string
		}{
			"no operator": {func() error { _, err := o.take(o.b, 0, false); return err }, "robot: operators of accept[0] does not name the host b"},
			"no force":    {func() error { _, err := o.take(o.a, 0, true); return err }, "robot: force of accept[0] does not name the host a"},
			"no rule": {func() error {
				_, err := o.a.node.Take(o.t.Context(), rule.Address{Host: "robot", Channel: "imu"}, 0, false)
				return err
			}, "no accept rule names it"},
			"no lock": {func() error {
				_, err := o.a.node.Take(o.t.Context(), rule.Address{Host: "robot", Channel: "plan"}, 0, false)
				return err
			}, "plan has no operator lock: accept[1] of robot does not set operator"},
			"no link": {func() error {
				_, err := o.a.node.Take(o.t.Context(), rule.Address{Host: "mars", Channel: "goal"}, 0, false)
				return err
			}, "no link to mars"},
			"own channel":    {func() error { _, err := o.robot.node.Take(o.t.Context(), goal, 0, false); return err }, "it is a channel of this host"},
			"to nobody":      {func() error { _, err := o.a.node.Release(o.t.Context(), goal, "mars"); return err }, "robot has no link to mars"},
			"to no operator": {func() error { _, err := o.a.node.Release(o.t.Context(), goal, "b"); return err }, "operators of accept[0] does not name the host b"},
		} {
			if err := c.ask(); err == nil || !strings.Contains(err.Error(), c.want) {
				o.t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
		}
	})
}

// Older nodes have no key locks in their Hello.
func TestOldPeerIsAskedToUpdate(t *testing.T) {
	inOperation(t, lockRules(), func(o *operated) {
		o.a.node.loop.call(func() { o.a.node.linkOf("robot").hello.knowsLocks = false })
		if _, err := o.take(o.a, 0, false); err == nil || !strings.HasSuffix(err.Error(), "the achbridge of robot does not know operator locks; update robot") {
			o.t.Errorf("got %v, want that the robot is updated", err)
		}
		o.robot.node.loop.call(func() {
			l := o.robot.node.linkOf("b")
			l.hello.knowsLocks = false
			o.robot.node.offer(l, wire.Offer{ID: 1 << 20, Channel: "goal"})
		})
		o.b.node.loop.call(func() {
			l := o.b.node.linkOf("robot")
			l.queries.lastID = 1<<20 - 1
			o.b.node.pushes.list[0].renew(o.b.node.pushes.list[0].Push)
			o.b.node.loop.changed()
		})
		o.within(time.Second, "the refusal", func() bool {
			return strings.HasSuffix(o.push(o.b).Reason, "the achbridge of b does not know operator locks; update b")
		})
	})
}

func TestRuleWithLockEndsPushOfNonHolder(t *testing.T) {
	rules := lockRules()
	lock := rules[0].Operator
	rules[0].Operator, rules[0].Hosts = nil, []string{"a"}
	inOperation(t, rules, func(o *operated) {
		o.within(time.Second, "a pushes without lock", func() bool { return o.robot.mirror("goal").State == status.MirrorLive })
		o.mu.Lock()
		o.changes = []lockChange{{0, "a"}}
		o.mu.Unlock()
		o.watch(time.Second)
		rules = slices.Clone(rules)
		rules[0].Operator = lock
		if err := o.robot.node.Apply(Config{Accept: rules}); err != nil {
			o.t.Fatal(err)
		}
		o.mu.Lock()
		o.changes = append(o.changes, lockChange{o.checker.seq(), ""})
		o.mu.Unlock()
		o.watch(time.Second)
		o.takes(o.a, false)
		o.feeds("a", time.Second)
		rules = slices.Clone(rules)
		rules[0].Operator = nil
		if err := o.robot.node.Apply(Config{Accept: rules}); err != nil {
			o.t.Fatal(err)
		}
		o.within(time.Second, "a pushes without lock again", func() bool { return o.push(o.a).State == status.PushAccepted })
		before := o.checker.seq()
		o.within(5*time.Second, "frames of a", func() bool { return o.checker.seq() > before+10 })
	})
}

func TestReloadEndsDeniedLock(t *testing.T) {
	inOperation(t, lockRules(), func(o *operated) {
		o.takes(o.a, false)
		o.feeds("a", time.Second)
		rules := lockRules()
		rules[0].Operator.Hosts, rules[0].Operator.Force = []string{"b"}, []string{"b"}
		if err := o.robot.node.Apply(Config{Accept: rules}); err != nil {
			o.t.Fatal(err)
		}
		o.takes(o.b, false)
		o.feeds("b", time.Second)
		o.watch(time.Second)
	})
}

func TestClientOfAchdCannotWriteLockedChannel(t *testing.T) {
	inOperation(t, lockRules(), func(o *operated) {
		if _, err := o.robot.node.Claim("goal", localach.Tag{}); err == nil || !strings.Contains(err.Error(), "operator lock") {
			o.t.Errorf("got %v, want that the operator lock refuses it", err)
		}
	})
}

// TestRandomFaultsOfTwoOperators takes, releases, kills and cuts at random, over links and the hub. Each frame in the
// robot's channel must be of the host that held the lock when the frame was put. In the short run there are fewer rounds.
func TestRandomFaultsOfTwoOperators(t *testing.T) {
	rounds := 60
	if need.IsLong() {
		rounds = 500
	}
	for _, over := range []string{"links", "links and hub"} {
		t.Run(over, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var hub *worldHub
				if over != "links" {
					hub = newWorldHub(w, hubMaxFrame)
				}
				o := w.operated(lockRules(), hub)
				o.randomFaults(rand.New(rand.NewPCG(7, uint64(rounds))), rounds)
			})
		})
	}
}

func (o *operated) randomFaults(random *rand.Rand, rounds int) {
	goal := rule.Address{Host: "robot", Channel: "goal"}
	hosts := []*host{o.a, o.b}
	counts := map[string]int{}
	count := func(what string, err error) {
		if err == nil {
			counts[what]++
		} else {
			counts[what+" refused"]++
		}
	}
	for range rounds {
		h, other := o.a, o.b
		if random.IntN(2) == 0 {
			h, other = other, h
		}
		switch random.IntN(12) {
		case 0, 1, 2:
			_, err := o.take(h, 0, false)
			count("take", err)
		case 3, 4:
			_, err := o.take(h, time.Duration(200+random.IntN(2000))*time.Millisecond, random.IntN(2) == 0)
			count("take for a time", err)
		case 5:
			_, err := o.take(h, 0, true)
			count("take by force", err)
		case 6:
			_, err := h.node.Release(o.t.Context(), goal, []string{"", other.name}[random.IntN(2)])
			count("release", err)
		case 7:
			h.vanish()
			o.watch(time.Duration(random.IntN(1500)) * time.Millisecond)
			o.start(h)
			count("kill of an operator", nil)
		case 8:
			o.robot.vanish()
			o.watch(time.Duration(random.IntN(1500)) * time.Millisecond)
			o.startRobot()
			count("kill of the robot's daemon", nil)
		case 9:
			name := []string{"a", "b", "robot"}[random.IntN(3)]
			o.change(name, "cut")
			o.watch(time.Duration(random.IntN(2500)) * time.Millisecond)
			o.change(name, "up")
			count("cut", nil)
		case 10:
			if o.hub == nil {
				continue
			}
			o.hub.Cut(h.name)
			o.watch(time.Duration(random.IntN(2500)) * time.Millisecond)
			o.hub.Restore(h.name)
			count("cut of the hub", nil)
		case 11:
			o.mu.Lock()
			o.noDisk = errors.New("no space left on device")
			o.mu.Unlock()
			_, err := o.take(h, 0, true)
			count("take without a disk", err)
			o.mu.Lock()
			o.noDisk = nil
			o.mu.Unlock()
		}
		o.watch(time.Duration(20+random.IntN(800)) * time.Millisecond)
	}
	o.t.Logf("%d rounds: %v; %d changes of the lock, frames %v, wrong %d", rounds, counts, len(o.changes), o.checker.frames, o.checker.errors)
	for _, h := range hosts {
		if o.checker.frames[h.name] < 10*rounds {
			o.t.Errorf("got %d frames of %s in %d rounds, want more", o.checker.frames[h.name], h.name, rounds)
		}
	}
}

// The direct link is cut, so that the hub carries the frames, and later restored.
func TestLockFollowsHolderToHubAndBack(t *testing.T) {
	inWorld(t, func(w *world) {
		rules := lockRules()
		rules[0].Operator.Grace = 2 * time.Second
		o := w.operated(rules, newWorldHub(w, hubMaxFrame))
		o.takes(o.a, false)
		way := func() status.Way { return o.robot.mirror("goal").Way }
		o.within(20*time.Second, "a direct link", func() bool { o.checker.check(); return way() == status.WayOver(via.QUIC) })
		o.feeds("a", time.Second)
		for _, to := range []struct {
			link string
			way  status.Way
		}{{"cut", status.WayHub}, {"up", status.WayOver(via.QUIC)}} {
			o.change("a", to.link)
			took := o.within(30*time.Second, string(to.way), func() bool { o.checker.check(); return way() == to.way })
			before := o.checker.frames["a"]
			o.watch(3 * time.Second)
			if lock, _ := o.robot.node.Holder(o.t.Context(), rule.Address{Host: "robot", Channel: "goal"}); lock.Holder != "a" || lock.Generation != 1 || o.checker.frames["a"] < before+100 {
				o.t.Errorf("link %s: got %+v and %d frames, want that a holds it on", to.link, lock, o.checker.frames["a"]-before)
			}
			o.t.Logf("link %s: frames are %s after %v", to.link, to.way, took)
		}
	})
}

// TestTakeoverTime measures how long the other operator needs to take over, with the default grace of a second.
func TestTakeoverTime(t *testing.T) {
	for _, over := range []string{"links", "hub"} {
		for how, lose := range map[string]func(o *operated){
			"holder killed": func(o *operated) {
				if o.hub == nil {
					o.change("a", "cut")
				} else {
					o.hub.Cut("a")
				}
			},
			"force": func(*operated) {},
			"release": func(o *operated) {
				_, _ = o.a.node.Release(o.t.Context(), rule.Address{Host: "robot", Channel: "goal"}, "")
			},
		} {
			t.Run(fmt.Sprint(over, ", ", how), func(t *testing.T) {
				inWorld(t, func(w *world) {
					var hub *worldHub
					if over == "hub" {
						hub = newWorldHub(w, hubMaxFrame)
					}
					o := w.operated(lockRules(), hub)
					if hub != nil { // no direct link
						for _, h := range []string{"a", "b"} {
							w.change(h, "cut")
						}
						o.within(20*time.Second, "the hub", func() bool {
							lock, err := o.take(o.a, 0, false)
							return err == nil && lock.Mine && len(o.b.node.Status().Links) == 1 && o.b.node.Status().Links[0].Way == status.WayHub
						})
						o.watch(3 * time.Second)
					}
					o.takes(o.a, false)
					o.feeds("a", 5*time.Second)
					o.watch(2 * time.Second)
					lose(o)
					begin := time.Now()
					o.within(3*time.Second, "b takes it", func() bool {
						_, err := o.take(o.b, 0, how == "force")
						return err == nil
					})
					taken := time.Since(begin)
					o.feeds("b", 3*time.Second)
					o.t.Logf("b holds it after %v, its first frame is put after %v", taken, time.Since(begin))
					most := 300 * time.Millisecond
					if how == "holder killed" {
						most += rule.DefaultGrace + 2*lockEvery
					}
					if taken > most {
						o.t.Errorf("taken after %v, want %v at most", taken, most)
					}
				})
			})
		}
	}
}
