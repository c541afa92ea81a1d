package bridge

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet"
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
	w.put[w.number] = map[*host]time.Duration{w.robot: w.robot.mono.now(), w.pc: w.pc.mono.now()}
	b := w.frame(w.number)
	for _, c := range w.channels {
		if _, err := c.w.Put(b); err != nil {
			w.t.Fatal(err)
		}
		c.noticed(c.ch)
	}
}

// frame returns a frame that was put: a header of sns, and a pattern.
func (w *stampWorld) frame(number uint64) []byte {
	stamp := w.put[number][w.robot]
	b := bytes.Repeat([]byte{byte(number)}, 64)
	binary.LittleEndian.PutUint64(b, uint64(stamp/time.Second))
	binary.LittleEndian.PutUint64(b[8:], uint64(stampValid))
	binary.LittleEndian.PutUint32(b[16:], uint32(stamp%time.Second))
	binary.LittleEndian.PutUint64(b[24:], number)
	return b
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
		if got, want := w.pc.views[name].frame, w.frame(number); !bytes.Equal(got, want) {
			w.t.Fatalf("%s: frame %d is %x, want %x as it was put", name, number, got, want)
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
