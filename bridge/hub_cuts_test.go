package bridge

import (
	"fmt"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/testnet"
	"achbridge/testnet/need"
)

// lookout watches the file of a mirror.
type lookout struct {
	name   string
	oldest time.Duration // greatest age at which a frame may be put in time
	last   uint64
	late   uint64 // number of frames that were put at a greater age
}

// watchEvery is the longest time between the put of a frame and its detection.
const watchEvery = 4 * time.Millisecond

// watchMirrors watches the mirrors for a while.
func (h *host) watchMirrors(long time.Duration, mirrors ...*lookout) {
	h.w.t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(watchEvery) {
		for _, m := range mirrors {
			number, age := h.newest(m.name)
			switch {
			case number < m.last:
				h.w.t.Fatalf("%s: frame %d was put after %d", m.name, number, m.last)
			case number == m.last:
				continue
			case age > m.oldest+watchEvery:
				m.late++
			}
			m.last = number
		}
	}
}

// A cut ends the connection. In a stall neither end notices anything, and data in transit arrives
// later.
func TestMirrorsRecoverAfterHubCuts(t *testing.T) {
	for _, long := range []time.Duration{1, 2, 3, 4, 5, 8} {
		for name, kind := range map[string]struct{ begin, end func(*worldHub, string) }{
			"cut":   {func(h *worldHub, host string) { h.Cut(host) }, func(h *worldHub, host string) { h.Restore(host) }},
			"stall": {func(h *worldHub, host string) { h.Stall(host) }, func(h *worldHub, host string) { h.Resume(host) }},
		} {
			for _, at := range []string{"robot", "pc"} {
				t.Run(fmt.Sprintf("%s of %v at %s", name, long*time.Second, at), func(t *testing.T) {
					if long != 4 && !need.IsLong() {
						t.Skip("long: set ACHBRIDGE_LONG=1")
					}
					inWorld(t, func(w *world) {
						hub, pc, mirrors := w.hubClasses()
						pc.watchMirrors(3*time.Second, mirrors...)
						before := [3]uint64{mirrors[0].late, mirrors[1].late, mirrors[2].late}
						kind.begin(hub, at)
						pc.watchMirrors(long*time.Second, mirrors...)
						kind.end(hub, at)
						pc.watchMirrors(time.Second, mirrors...)
						for i, m := range mirrors {
							if _, age := pc.newest(m.name); age > 100*time.Millisecond {
								t.Errorf("%s: %v old 1 s after", m.name, age)
							}
							if got := m.late - before[i]; got > 0 && i > 0 {
								t.Errorf("%s: %d frames past their budget were put", m.name, got)
							}
						}
						pc.watchMirrors(2*time.Second, mirrors...) // time for the counters to settle
						if kept := pc.mirror(mirrors[0].name).LateKept; kept < mirrors[0].late {
							t.Errorf("%d late frames were put, %d are counted", mirrors[0].late, kept)
						}
					})
				})
			}
		}
	}
}

// hubClasses returns a pc that reads three channels of a robot through a hub: one by default, one
// with late: drop, and one of class command.
func (w *world) hubClasses() (hub *worldHub, pc *host, mirrors []*lookout) {
	w.t.Helper()
	hub = newWorldHub(w, hubMaxFrame)
	robot, pc := w.host("robot", testnet.Params{}), w.host("pc", testnet.Params{})
	robot.atHub(hub, Config{})
	command := rule.QoS{Class: rule.Command, Budget: 200 * time.Millisecond}
	pc.atHub(hub, Config{Mirrors: []rule.Mirror{
		{Host: "robot", Channel: "kept"},
		{Host: "robot", Channel: "dropped", QoS: rule.QoS{Late: rule.LateDrop}},
		{Host: "robot", Channel: "goal", QoS: command},
	}}, "robot")
	const uncertainty = 21 * time.Millisecond // a state frame counts as late only if it is certainly late
	for name, oldest := range map[string]time.Duration{"kept": 100*time.Millisecond + uncertainty, "dropped": 100*time.Millisecond + uncertainty, "goal": command.Budget} {
		robot.channel(name, 16, 64).streams(64)
		m := &lookout{name: "robot." + name, oldest: oldest}
		if mirrors = append(mirrors, m); name == "kept" {
			last := len(mirrors) - 1
			mirrors[0], mirrors[last] = mirrors[last], mirrors[0]
		}
	}
	for _, m := range mirrors {
		pc.freshWithin(4*time.Second, m.name)
	}
	return hub, pc, mirrors
}
