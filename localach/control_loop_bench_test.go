package localach_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"achbridge/localach"
)

// BenchmarkControlLoop measures how late another program's control loop wakes at 1 kHz, once while a watcher polls a humanoid's
// channels and once while it watches none. It reports the ratio of the two; the goal is at most 1.05. Other programs keep no core
// busy, all but one, or all. Each iteration is a pair of runs of a second. The ratios are medians over the pairs. Run it with
// -benchtime 20x.
func BenchmarkControlLoop(b *testing.B) {
	for _, busy := range []int{0, runtime.NumCPU() - 1, runtime.NumCPU()} {
		b.Run(fmt.Sprint(busy, "-busy"), func(b *testing.B) {
			h := newHumanoid(b)
			for range busy {
				startPeer(b, "-", "burn").ready()
			}
			var pairs loopPairs
			for i := 0; b.Loop(); i++ {
				pairs.run(b, h, i%2 == 0)
			}
			pairs.report(b)
		})
	}
}

// humanoid has the channels of a robot. C programs put into nine of them at 200 Hz, and into one at 1 kHz.
type humanoid struct {
	watcher  *localach.Watcher
	channels []*localach.Channel
}

func newHumanoid(b *testing.B) *humanoid {
	b.Helper()
	d, h := privateDir(b), &humanoid{watcher: startWatcher(b)}
	for i := range 10 {
		name, period := fmt.Sprint("joint", i), 5*time.Millisecond
		if i == 9 {
			name, period = "imu", time.Millisecond
		}
		h.channels = append(h.channels, createIn(b, d, name, 16, 3000))
		startPeer(b, pathOf(d, name), "put", "0", "3000", fmt.Sprint(period.Nanoseconds()), "1").ready()
	}
	return h
}

// loopPairs has the results of control loops that ran alternately while a watcher was idle and while it polled.
type loopPairs struct {
	idle, polling []map[string]float64
}

func (p *loopPairs) run(b *testing.B, h *humanoid, idleFirst bool) {
	b.Helper()
	if idleFirst {
		p.idle = append(p.idle, lateness(b))
	}
	var notices []*localach.Notice
	for _, c := range h.channels {
		notices = append(notices, h.watcher.Watch(c, func(uint64) {}))
	}
	time.Sleep(time.Second) // until the watcher knows the periods
	p.polling = append(p.polling, lateness(b))
	for _, n := range notices {
		n.Close()
	}
	if !idleFirst {
		p.idle = append(p.idle, lateness(b))
	}
}

// lateness runs a control loop for a second and returns how late it woke, by statistic.
func lateness(b *testing.B) map[string]float64 {
	b.Helper()
	start, cpu := time.Now(), cpuTime(b)
	got := startPeer(b, "-", "loop", "1000", "1000000").result()
	got["cpu_%"] = 100 * (cpuTime(b) - cpu).Seconds() / time.Since(start).Seconds()
	return got
}

func (p *loopPairs) report(b *testing.B) {
	for _, name := range []string{"p50", "p99", "mean"} {
		var ratios []float64
		for i, t := range p.idle {
			ratios = append(ratios, p.polling[i][name+"_ns"]/t[name+"_ns"])
		}
		b.ReportMetric(middle(ratios), name+"-x-of-idle")
		b.ReportMetric(middleOf(p.idle, name+"_ns")/1000, name+"-idle-µs")
	}
	b.ReportMetric(middleOf(p.polling, "cpu_%"), "polling-%core")
}

func middleOf(runs []map[string]float64, figure string) float64 {
	var list []float64
	for _, r := range runs {
		list = append(list, r[figure])
	}
	return middle(list)
}

func middle(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
