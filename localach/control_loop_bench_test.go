package localach_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"achbridge/localach"
)

// BenchmarkControlLoop measures how late another program's control loop of 1 kHz wakes while a watcher may poll busily for a
// humanoid's frames, as a ratio to that with ticks only. Busy loops run on no core, on all but one, and on all. The goal is at
// most 1.05. Each iteration is a pair of runs of a second, and the ratios are medians over the pairs. Run it with
// -benchtime 20x.
func BenchmarkControlLoop(b *testing.B) {
	for _, busy := range []int{0, runtime.NumCPU() - 1, runtime.NumCPU()} {
		b.Run(fmt.Sprint(busy, "-busy"), func(b *testing.B) {
			w := watchHumanoid(b)
			for range busy {
				startPeer(b, "-", "burn").ready()
			}
			time.Sleep(2 * time.Second) // until the periods are known
			var pairs loopPairs
			for i := 0; b.Loop(); i++ {
				pairs.run(b, w, i%2 == 0)
			}
			pairs.report(b)
		})
	}
}

// watchHumanoid watches nine channels at 200 Hz and one at 1 kHz, into each of which a C program puts.
func watchHumanoid(b *testing.B) *localach.Watcher {
	b.Helper()
	d, w := privateDir(b), startWatcher(b)
	for i := range 10 {
		name, period := fmt.Sprint("joint", i), 5*time.Millisecond
		if i == 9 {
			name, period = "imu", time.Millisecond
		}
		c := createIn(b, d, name, 16, 3000)
		startPeer(b, pathOf(d, name), "put", "0", "3000", fmt.Sprint(period.Nanoseconds()), "1").ready()
		b.Cleanup(w.Watch(c, func(uint64) {}).Close)
	}
	return w
}

// loopPairs has the figures of control loops, run alternately with ticks only and with windows.
type loopPairs struct {
	ticks, windows []map[string]float64
}

func (p *loopPairs) run(b *testing.B, w *localach.Watcher, ticksFirst bool) {
	b.Helper()
	if ticksFirst {
		p.ticks = append(p.ticks, lateness(b, w, 0))
	}
	p.windows = append(p.windows, lateness(b, w, localach.DefaultWatchBudget))
	if !ticksFirst {
		p.ticks = append(p.ticks, lateness(b, w, 0))
	}
}

// lateness runs a control loop for a second while the watcher has the given budget.
func lateness(b *testing.B, w *localach.Watcher, budget float64) map[string]float64 {
	b.Helper()
	w.SetBudget(budget)
	time.Sleep(200 * time.Millisecond) // until windows are planned again, every 50 ms
	start, cpu, spent := time.Now(), cpuTime(b), w.BusyPolling().Spent
	got := startPeer(b, "-", "loop", "1000", "1000000").result()
	took := time.Since(start).Seconds()
	got["cpu_%"] = 100 * (cpuTime(b) - cpu).Seconds() / took
	got["spent_%"] = 100 * (w.BusyPolling().Spent - spent).Seconds() / took
	return got
}

func (p *loopPairs) report(b *testing.B) {
	for _, name := range []string{"p50", "p99", "mean"} {
		var ratios []float64
		for i, t := range p.ticks {
			ratios = append(ratios, p.windows[i][name+"_ns"]/t[name+"_ns"])
		}
		b.ReportMetric(middle(ratios), name+"-x-of-ticks")
		b.ReportMetric(middleOf(p.ticks, name+"_ns")/1000, name+"-ticks-µs")
	}
	b.ReportMetric(middleOf(p.ticks, "cpu_%"), "ticks-%core")
	b.ReportMetric(middleOf(p.windows, "cpu_%"), "windows-%core")
	b.ReportMetric(middleOf(p.windows, "spent_%"), "windows-%spent")
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
