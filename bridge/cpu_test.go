package bridge

import (
	"sync/atomic"
	"testing"
	"time"

	"achbridge/bridge/rule"
)

// Both ends of a link report to each other how long their daemons wait for a CPU, even an end that
// only reads.
func TestBothHostsReportCPUWait(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		var waits [2]atomic.Int64 // in %, of robot and PC
		reporting := func(percent *atomic.Int64) Config {
			return Config{CPUWait: func(time.Duration) (float64, bool) { return float64(percent.Load()) / 100, true }}
		}
		waits[0].Store(83)
		robot.run(reporting(&waits[0]))
		cfg := reporting(&waits[1])
		cfg.Mirrors = []rule.Mirror{{Host: "robot", Channel: "*"}}
		pc.run(cfg, robot)
		robot.channel("imu", 64, 64)
		is := func(what string, of *host, own, other float64) {
			t.Helper()
			w.within(5*time.Second, what, func() bool {
				s := of.node.Status()
				if len(s.Links) == 0 || s.CPUWait == nil || *s.CPUWait != own {
					return false
				}
				in := s.Links[0].Inbound
				if other == 0 {
					return in == nil || in.CPUWait == nil
				}
				return in != nil && in.CPUWait != nil && *in.CPUWait == other
			})
		}
		is("what the robot tells", pc, 0, 0.85)
		is("that the PC is idle", robot, 0.85, 0)
		waits[0].Store(1)
		waits[1].Store(100)
		is("that the robot is idle", pc, 1, 0)
		is("what the PC tells", robot, 0, 1)
	})
}

// A node reports nothing if its kernel does not.
func TestCPUWaitIsUnknownWithoutKernelSupport(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.run(Config{CPUWait: func(time.Duration) (float64, bool) { return 0, false }})
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "*"}}}, robot)
		robot.channel("imu", 64, 64)
		w.within(5*time.Second, "link", func() bool { return len(pc.node.Status().Links) == 1 })
		time.Sleep(3 * time.Second)
		for name, h := range map[string]*host{"robot": robot, "pc": pc} {
			s := h.node.Status()
			if in := s.Links[0].Inbound; s.CPUWait != nil || in != nil && in.CPUWait != nil {
				t.Errorf("%s: got %v, %+v; want nothing", name, s.CPUWait, in)
			}
		}
	})
}
