package bridge

import (
	"encoding/binary"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet"
	"achbridge/wire"
)

// monoClock is the CLOCK_MONOTONIC of a host in a world. It stops while the host is suspended.
type monoClock struct {
	booted time.Time
	ppm    time.Duration // how much faster it runs than the world

	mu     sync.Mutex // guards the fields below
	slept  time.Duration
	frozen time.Duration // its reading while the host is suspended, 0 otherwise
}

// up returns the clock of a host that has been up for a time.
func up(uptime, ppm time.Duration) *monoClock {
	return &monoClock{booted: time.Now().Add(-uptime), ppm: ppm}
}

func (c *monoClock) running() time.Duration {
	t := time.Since(c.booted)
	return t + t/1e6*c.ppm - c.slept
}

func (c *monoClock) now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen != 0 {
		return c.frozen
	}
	return c.running()
}

func (c *monoClock) suspended() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen != 0 {
		return c.slept + c.running() - c.frozen
	}
	return c.slept
}

// freeze suspends the host, or wakes it.
func (c *monoClock) freeze(isFrozen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isFrozen {
		c.frozen = c.running()
		return
	}
	c.slept += c.running() - c.frozen
	c.frozen = 0
}

// reboots gives the host, whose node must not run, another boot and another uptime. Its channels are gone.
func (h *host) reboots(uptime time.Duration) {
	h.w.t.Helper()
	files, err := os.ReadDir(string(h.dir))
	if err != nil {
		h.w.t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(string(h.dir) + "/" + f.Name()); err != nil {
			h.w.t.Fatal(err)
		}
	}
	h.machine.Boot[0]++
	h.mono = up(uptime, h.mono.ppm)
}

// stampValid is how long the frames of a stampWorld are valid.
const stampValid = 500 * time.Millisecond

// stampWorld is a robot whose frames have stamps, and a PC that has mirrors of them, over one of several routes.
type stampWorld struct {
	*world
	robot, base, pc *host // base is nil without a relay
	hub             *worldHub
	relayShifts     bool
	channels        []*channel
	mirrors         []string                           // the names of the PC's mirrors
	put             map[uint64]map[*host]time.Duration // what the hosts' clocks were when a frame was put
	lastSeen        map[string]uint64                  // newest frame of each mirror that was checked
	checked         map[string]int                     // frames that were checked
	number          uint64
	isPutting       bool      // the robot's program puts frames
	hasWoken        bool      // the robot was suspended
	first           time.Time // when the first frame after that arrived
}

// stampClasses are the quality of service of the channels of a stampWorld.
var stampClasses = map[string]rule.QoS{
	"goal":  {Class: rule.Command},
	"state": {},
	"log":   {Mode: rule.Every},
	plain:   {}, // mirrored unchanged
}

const plain = "plain"

// stampRoutes are the routes from the robot to the PC.
var stampRoutes = []string{"QUIC", "SCTP", "hub", "relay that shifts", "relay that does not shift"}

// inStampWorld runs f in a world with a route. The hosts have been up for very different times.
func inStampWorld(t *testing.T, route string, f func(w *stampWorld)) {
	t.Helper()
	inWorld(t, func(bare *world) {
		lan := testnet.Params{Delay: time.Millisecond}
		w := &stampWorld{world: bare, put: map[uint64]map[*host]time.Duration{}, lastSeen: map[string]uint64{}, checked: map[string]int{}, isPutting: true}
		w.robot, w.pc = w.host("robot", lan), w.host("pc", lan)
		w.robot.mono, w.pc.mono = up(tenDays, 100), up(time.Hour, -100)
		from, prefix := "robot", ""
		switch route {
		case "SCTP":
			w.robot.over, w.pc.over = overSCTP, overSCTP
		case "hub":
			w.hub = newWorldHub(bare, hubMaxFrame) // has no mode every
		case "relay that shifts", "relay that does not shift":
			w.base = w.host("base", lan)
			w.base.mono = up(20*tenDays, 0)
			w.relayShifts = route == "relay that shifts"
			from, prefix = "base", "robot."
		}
		w.makeChannels()
		cfg := Config{}
		for name, qos := range stampClasses {
			if w.hub != nil && qos.Mode == rule.Every {
				continue
			}
			shifting := qos
			if name != plain {
				shifting.Stamps = "sns"
			}
			cfg.Mirrors = append(cfg.Mirrors, rule.Mirror{Host: from, Channel: prefix + name, As: name, QoS: shifting})
			w.mirrors = append(w.mirrors, name)
		}
		switch {
		case w.hub != nil:
			w.robot.atHub(w.hub, Config{}, "pc")
			w.pc.atHub(w.hub, cfg, "robot")
		case w.base != nil:
			w.robot.run(Config{})
			w.base.run(w.relayConfig(w.relayShifts), w.robot)
			w.pc.run(cfg, w.base)
		default:
			w.robot.run(Config{})
			w.pc.run(cfg)
			w.pc.node.SetPeers([]Peer{w.robot.asPeer("")})
		}
		f(w)
	})
}

const tenDays = 240 * time.Hour

func (w *stampWorld) makeChannels() {
	w.channels = nil
	for name := range stampClasses {
		w.channels = append(w.channels, w.robot.channel(name, 16, 64))
	}
}

// putAll puts a frame into each of the robot's channels.
func (w *stampWorld) putAll() {
	w.t.Helper()
	w.number++
	clocks := map[*host]time.Duration{w.robot: w.robot.mono.now(), w.pc: w.pc.mono.now()}
	w.put[w.number] = clocks
	b := make([]byte, 64)
	binary.LittleEndian.PutUint64(b, uint64(clocks[w.robot]/time.Second))
	binary.LittleEndian.PutUint64(b[8:], uint64(stampValid))
	binary.LittleEndian.PutUint32(b[16:], uint32(clocks[w.robot]%time.Second))
	binary.LittleEndian.PutUint64(b[24:], w.number)
	for _, c := range w.channels {
		if _, err := c.w.Put(b); err != nil {
			w.t.Fatal(err)
		}
		c.noticed(c.ch)
	}
}

// runs puts frames for a while, and checks those that arrive at the PC.
func (w *stampWorld) runs(long, period time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); {
		if w.isPutting {
			w.putAll()
		}
		for range 4 {
			time.Sleep(period / 4)
			for _, name := range w.mirrors {
				w.check(name)
			}
		}
	}
}

// newestStamp returns the newest frame of a mirror of the PC. ok is false without a frame.
func (w *stampWorld) newestStamp(name string) (number uint64, stamp time.Duration, ok bool) {
	w.t.Helper()
	v, err := w.pc.see(name)
	if err != nil {
		return 0, 0, false
	}
	b := v.frame
	stamp = time.Duration(binary.LittleEndian.Uint64(b))*time.Second + time.Duration(binary.LittleEndian.Uint32(b[16:]))
	return binary.LittleEndian.Uint64(b[24:]), stamp, true
}

// check checks the stamp of a mirror's newest frame.
func (w *stampWorld) check(name string) {
	w.t.Helper()
	number, stamp, ok := w.newestStamp(name)
	if !ok || number == w.lastSeen[name] {
		return
	}
	w.lastSeen[name] = number
	w.checked[name]++
	if name == plain {
		if want := w.put[number][w.robot]; stamp != want {
			w.t.Fatalf("%s: the stamp of frame %d is %v, want %v as it was put", name, number, stamp, want)
		}
		return
	}
	m := w.pc.mirror(name)
	if m.Stamps == nil {
		return // the mirror has just been refused
	}
	most := time.Duration(m.Stamps.ErrorMs*1e6) + 50*time.Microsecond
	late := stamp - w.put[number][w.pc]
	switch {
	case name == "goal" && (late > time.Microsecond || late < -5*most):
		w.t.Fatalf("%s: command %d is valid for %v longer than meant, with an error of %v", name, number, late, most)
	case w.base != nil && w.hasWoken && late < 0 && time.Since(w.firstAfter()) < 500*time.Millisecond:
		// The next host has yet to notice that the clock stopped. The frame seems older than it is.
	case name != "goal" && late.Abs() > most:
		w.t.Fatalf("%s: the stamp of frame %d is wrong by %v, with an error of %v", name, number, late, most)
	}
}

// woke records that the clock of a host went on after a suspension.
func (w *stampWorld) woke() { w.hasWoken, w.first = true, time.Time{} }

// firstAfter returns when the first frame after the suspension arrived.
func (w *stampWorld) firstAfter() time.Time {
	if w.first.IsZero() {
		w.first = time.Now()
	}
	return w.first
}

// arrive waits until frames that are put now arrive in all mirrors.
func (w *stampWorld) arrive(limit time.Duration) {
	w.t.Helper()
	first := w.number + 1
	for end := time.Now().Add(limit); ; {
		w.runs(20*time.Millisecond, 20*time.Millisecond)
		all := true
		for _, name := range w.mirrors {
			all = all && w.lastSeen[name] >= first
		}
		if all {
			return
		}
		if time.Now().After(end) {
			for _, name := range w.mirrors {
				m := w.pc.mirror(name)
				w.t.Errorf("%s: frame %d of %d, %s: %s", name, w.lastSeen[name], w.number, m.State, m.Reason)
			}
			w.t.FailNow()
		}
	}
}

// steps returns the events of the hosts that shift, which report jumps of stamps.
func (w *stampWorld) steps() (list []string) {
	events := w.pc.events(status.EventClockStep)
	if w.relayShifts {
		events = append(events, w.base.events(status.EventClockStep)...)
	}
	for _, e := range events {
		if strings.HasPrefix(e.Text, "the clock of the stamps") {
			list = append(list, e.Host+": "+e.Text)
		}
	}
	return list
}

func (w *stampWorld) wantSteps(most int) {
	w.t.Helper()
	if got := w.steps(); len(got) != most {
		w.t.Errorf("%d jumps, want %d: %v", len(got), most, got)
	}
}

// offset returns the offset that a mirror of the PC reports, and its error.
func (w *stampWorld) offset(name string) (offset, err time.Duration) {
	w.t.Helper()
	m := w.pc.mirror(name)
	if m.Stamps == nil {
		w.t.Fatalf("%s: %s (%s)", name, m.State, m.Reason)
	}
	return time.Duration(m.Stamps.OffsetS * 1e9), time.Duration(m.Stamps.ErrorMs * 1e6)
}

// Whatever happens on the way, a stamp is right within its error, and no command is valid longer than its sender meant.
func TestStampsStayTrue(t *testing.T) {
	for _, route := range stampRoutes {
		for what, happens := range map[string]func(w *stampWorld){
			"the sender dies": func(w *stampWorld) {
				w.isPutting = false
				last := w.put[w.number][w.pc]
				w.runs(time.Second, 10*time.Millisecond)
				_, stamp, _ := w.newestStamp("goal")
				if now := w.pc.mono.now(); now < last+stampValid || stamp+stampValid > last+stampValid {
					w.t.Errorf("the last command expires at %v, want %v at most", stamp+stampValid, last+stampValid)
				}
				w.wantSteps(0)
			},
			"the robot's daemon restarts": func(w *stampWorld) { w.restart(w.robot) },
			"the PC's daemon restarts":    func(w *stampWorld) { w.restart(w.pc) },
			"the robot reboots": func(w *stampWorld) {
				w.robot.stop()
				for _, c := range w.channels {
					c.close()
				}
				w.robot.reboots(time.Minute)
				w.makeChannels()
				w.robot.run(w.robot.cfg)
				if w.hub != nil {
					w.robot.knows([]string{"pc"})
				}
				w.arrive(10 * time.Second)
				w.wantSteps(1)
			},
			"the robot was suspended": func(w *stampWorld) { w.sleeps(w.robot) },
			"the PC was suspended":    func(w *stampWorld) { w.sleeps(w.pc) },
			"the relay's daemon restarts": func(w *stampWorld) {
				if w.base != nil {
					w.restart(w.base)
				}
			},
			"the relay was suspended": func(w *stampWorld) {
				if w.base != nil {
					w.sleeps(w.base)
				}
			},
			"the relay was suspended for a moment": func(w *stampWorld) {
				for range 3 { // the links last
					if w.base != nil {
						w.base.mono.freeze(true)
						w.runs(300*time.Millisecond, 10*time.Millisecond)
						w.base.mono.freeze(false)
						w.woke()
						w.arrive(20 * time.Second)
					}
				}
			},
			"the link is cut": func(w *stampWorld) {
				w.cut(w.pc, true)
				w.runs(15*time.Second, 100*time.Millisecond)
				w.cut(w.pc, false)
				w.arrive(15 * time.Second)
				w.wantSteps(0)
			},
		} {
			t.Run(route+"/"+what, func(t *testing.T) {
				inStampWorld(t, route, func(w *stampWorld) {
					w.arrive(10 * time.Second)
					w.runs(time.Second, 10*time.Millisecond)
					happens(w)
					if w.isPutting {
						w.runs(time.Second, 10*time.Millisecond)
					}
					for _, name := range w.mirrors {
						if w.checked[name] < 50 {
							t.Errorf("%s: %d frames were checked, want 50 at least", name, w.checked[name])
						}
					}
				})
			})
		}
	}
}

// cut cuts the network of a host, or joins it again.
func (w *stampWorld) cut(h *host, isCut bool) {
	w.t.Helper()
	switch {
	case w.hub == nil:
		w.change(h.name, map[bool]string{true: "cut", false: "up"}[isCut])
	case isCut:
		w.hub.Cut(h.name)
	default:
		w.hub.Restore(h.name)
	}
}

// restart restarts a daemon. The stamps move by no more than the errors.
func (w *stampWorld) restart(h *host) {
	w.t.Helper()
	before, err := w.offset("state")
	h.stop()
	time.Sleep(100 * time.Millisecond)
	h.run(h.cfg, h.dials...)
	switch {
	case w.hub != nil && h == w.pc:
		h.knows([]string{"robot"})
	case w.hub != nil:
		h.knows([]string{"pc"})
	case w.base == nil && h == w.pc:
		h.node.SetPeers([]Peer{w.robot.asPeer("")})
	}
	w.arrive(15 * time.Second)
	after, errAfter := w.offset("state")
	if moved := (after - before).Abs(); moved > err+errAfter {
		w.t.Errorf("the offset moved by %v, want %v at most", moved, err+errAfter)
	}
	w.wantSteps(0)
}

// sleeps suspends a host for a while. Nothing reaches it meanwhile.
func (w *stampWorld) sleeps(h *host) {
	w.t.Helper()
	w.isPutting = h != w.robot
	w.cut(h, true)
	h.mono.freeze(true)
	w.runs(30*time.Second, 100*time.Millisecond)
	h.mono.freeze(false)
	w.cut(h, false)
	w.isPutting = true
	if h == w.robot {
		w.woke()
	}
	w.arrive(20 * time.Second)
	jumps := 1
	switch {
	case h == w.base && w.relayShifts:
		jumps = 2 // for the clocks of robot and base
	case h == w.base:
		jumps = 0 // it is between the two clocks
	}
	w.wantSteps(jumps)
}

// relayConfig returns the configuration of the relay, with or without the option.
func (w *stampWorld) relayConfig(shifts bool) Config {
	cfg := Config{Relay: []string{"*"}}
	for name, qos := range stampClasses {
		if shifts && name != plain {
			qos.Stamps = "sns"
		}
		cfg.Mirrors = append(cfg.Mirrors, rule.Mirror{Host: "robot", Channel: name, QoS: qos})
	}
	return cfg
}

// No frame that a relay put before the option changed there is taken for one of after.
func TestStampsStayTrueWhenRelayChangesOption(t *testing.T) {
	inStampWorld(t, "relay that does not shift", func(w *stampWorld) {
		w.arrive(10 * time.Second)
		w.change("pc", "loss=20%") // catalogs are retransmitted, and frames overtake them
		for i := range 6 {
			w.relayShifts = i%2 == 0
			if err := w.base.node.Apply(w.relayConfig(w.relayShifts)); err != nil {
				t.Fatal(err)
			}
			w.runs(2*time.Second, 10*time.Millisecond)
			w.arrive(5 * time.Second)
		}
	})
}

// Two clocks that drift apart by 200 ppm. The relay names the changed offset seldom.
func TestStampsStayTrueWhileClocksDrift(t *testing.T) {
	for _, route := range []string{"QUIC", "hub", "relay that does not shift"} {
		t.Run(route, func(t *testing.T) {
			inStampWorld(t, route, func(w *stampWorld) {
				w.arrive(10 * time.Second)
				var named *wire.Clock
				changes := 0
				for range 720 {
					w.runs(5*time.Second, 500*time.Millisecond)
					if w.base == nil {
						continue
					}
					w.base.node.loop.call(func() {
						if now := w.base.node.mirrors.passedClock("robot.goal"); now != named {
							named = now
							changes++
						}
					})
				}
				w.wantSteps(0)
				if _, err := w.offset("state"); err > 50*time.Millisecond {
					t.Errorf("an error of %v, want 50ms at most", err)
				}
				if t.Logf("the relay named %d offsets in an hour", changes); changes > 600 {
					t.Errorf("the relay named %d offsets in an hour, want 600 at most", changes)
				}
			})
		})
	}
}

// The first exchange takes 80 ms longer in one direction, so that the first offset is wrong by 40 ms.
func TestStampsRecoverFromABadFirstSample(t *testing.T) {
	inStampWorld(t, "QUIC", func(w *stampWorld) {
		w.change("robot", "delay=81ms") // in one direction
		w.arrive(10 * time.Second)
		if _, err := w.offset("state"); err < 40*time.Millisecond {
			t.Errorf("an error of %v, want 40ms at least", err)
		}
		w.change("robot", "delay=1ms")
		w.runs(3*time.Minute, 100*time.Millisecond)
		if _, err := w.offset("state"); err > 5*time.Millisecond {
			t.Errorf("an error of %v after three minutes, want 5ms at most", err)
		}
		w.wantSteps(0)
	})
}

// A mirror that gets its frames from another host, or over another route, has the same offset.
func TestStampsDoNotJumpWithTheRoute(t *testing.T) {
	t.Run("from the relay to the origin", func(t *testing.T) {
		inStampWorld(t, "relay that does not shift", func(w *stampWorld) {
			w.arrive(10 * time.Second)
			w.runs(5*time.Second, 10*time.Millisecond)
			before, _ := w.offset("state")
			var direct Config
			for _, m := range w.pc.cfg.Mirrors {
				m.Host, m.Channel = "robot", m.As
				direct.Mirrors = append(direct.Mirrors, m)
			}
			if err := w.pc.node.Apply(direct); err != nil {
				t.Fatal(err)
			}
			w.pc.node.SetPeers(asPeers([]*host{w.robot}))
			w.arrive(10 * time.Second)
			after, _ := w.offset("state")
			if (after - before).Abs() > 5*time.Millisecond {
				t.Errorf("the offset moved by %v", after-before)
			}
			w.runs(time.Minute, 100*time.Millisecond)
			w.wantSteps(0)
			if _, err := w.offset("state"); err > 2*time.Millisecond {
				t.Errorf("an error of %v, want that of the direct link", err)
			}
		})
	})
	t.Run("from the direct link to the hub", func(t *testing.T) {
		inStampWorld(t, "hub", func(w *stampWorld) {
			w.arrive(10 * time.Second)
			w.pc.knows([]string{"robot"}, w.robot)
			w.within(2*time.Minute, "the direct link", func() bool {
				w.runs(100*time.Millisecond, 20*time.Millisecond)
				return w.pc.mirror("state").Way != status.WayHub
			})
			w.runs(time.Minute, 100*time.Millisecond)
			w.change("pc", "cut")
			w.within(time.Minute, "the hub", func() bool {
				w.runs(100*time.Millisecond, 20*time.Millisecond)
				return w.pc.mirror("state").Way == status.WayHub
			})
			w.arrive(10 * time.Second)
			w.wantSteps(0)
		})
	})
}
