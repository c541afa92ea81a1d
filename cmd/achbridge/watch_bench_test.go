package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"achbridge/cmd/achbridge/diagnose"
	"achbridge/localach"
	"achbridge/testnet/await"
)

// BenchmarkWatching is what watching costs at 100 channels of 200 Hz: processor time,
// in percent of one core, of the daemon that has the mirrors and of `status --watch`,
// with that, a browser's events and a scrape every second, beyond what the daemon takes
// unwatched; and by how much the mean age of the mirrors changes. Wanted are less than
// 3 %, and at most 5 %. Watched and unwatched times take turns.
func BenchmarkWatching(b *testing.B) {
	const channels, hz, rounds, round = 100, 200, 6, 4 * time.Second
	key := newKeyFile(b)
	robot := daemonFor(b, key, "krang")
	putAll(b, robot.shm, channels, time.Second/hz)
	pc := daemonFor(b, key, "planner", "--peer", fmt.Sprintf("127.0.0.1:%d", robot.udp), "--mirror", "krang/*")
	await.True(b, "all mirrors run", func() bool {
		s, err := pc.status()
		return err == nil && len(s.Mirrors) == channels && diagnose.NotAtWork(s.Report) == nil
	})
	for b.Loop() {
		var cpu [2]float64 // unwatched, watched
		var ages [2][]float64
		var beside float64 // of status --watch
		for i := range 2 * rounds {
			watched := i%4 == 1 || i%4 == 2
			besides, stop := func() float64 { return 0 }, func() {}
			if watched {
				besides, stop = watchDaemon(b, pc)
			}
			time.Sleep(1500 * time.Millisecond) // to begin to watch is not to watch
			beside -= besides() / (rounds * round.Seconds())
			before, sum, span := processorOf(b, pc.cmd.Process.Pid), 0.0, 0.0
			sums := func(sign float64) {
				s, err := pc.status()
				if err != nil {
					b.Fatal(err)
				}
				for _, m := range s.Mirrors {
					if m.Age != nil {
						sum += sign * m.Age.Total.MeanMs * m.Age.Total.WindowS
						span += sign * m.Age.Total.WindowS
					}
				}
			}
			sums(-1)
			time.Sleep(round)
			sums(1)
			spent := processorOf(b, pc.cmd.Process.Pid) - before
			beside += besides() / (rounds * round.Seconds())
			stop()
			at := map[bool]int{true: 1}[watched]
			cpu[at] += spent / (rounds * round.Seconds())
			ages[at] = append(ages[at], sum/span)
		}
		b.ReportMetric(100*cpu[0], "%core-unwatched")
		b.ReportMetric(100*(cpu[1]-cpu[0]), "%core-to-be-watched")
		b.ReportMetric(100*beside, "%core-of-status-watch")
		var age [2]float64 // of the round in the middle: other work on the machine spoils some
		for at, list := range ages {
			slices.Sort(list)
			age[at] = list[rounds/2]
		}
		b.ReportMetric(age[0], "ms-age")
		b.ReportMetric(100*(age[1]-age[0])/age[0], "%age-changed")
	}
}

// watchDaemon begins to watch in every way, until stop; besides returns the seconds of
// processor time that status --watch has taken.
func watchDaemon(b *testing.B, d *daemonProcess) (besides func() float64, stop func()) {
	b.Helper()
	watching := exec.Command("achbridge", "status", "--watch", "--control", d.control())
	if err := watching.Start(); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	get := func(path string) (n int64) {
		r, _ := http.NewRequestWithContext(ctx, "GET", "http://"+d.address+path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			if ctx.Err() == nil {
				b.Error(err)
			}
			return 0
		}
		defer resp.Body.Close()
		n, _ = io.Copy(io.Discard, resp.Body) // the events end with ctx
		return n
	}
	var watchers sync.WaitGroup
	watchers.Go(func() {
		if get("/events") == 0 {
			b.Error("no events came")
		}
	})
	watchers.Go(func() {
		for tick := time.NewTicker(time.Second); ctx.Err() == nil; <-tick.C {
			get("/metrics")
		}
	})
	besides = func() float64 { return processorOf(b, watching.Process.Pid) }
	return besides, func() {
		cancel()
		watchers.Wait()
		_ = watching.Process.Kill()
		_ = watching.Wait()
	}
}

// putAll puts frames into all of the channels at once every period, until the end.
func putAll(t testing.TB, dir localach.Dir, channels int, period time.Duration) {
	t.Helper()
	var writers []*localach.Writer
	for i := range channels {
		ch, err := dir.Create(fmt.Sprintf("c%02d", i), localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: 64}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ch.Close() })
		writers = append(writers, ch.Writer())
	}
	ctx, cancel := context.WithCancel(context.Background())
	var feeder sync.WaitGroup
	feeder.Go(func() {
		frame := make([]byte, 64)
		for tick := time.NewTicker(period); ctx.Err() == nil; <-tick.C {
			for _, w := range writers {
				_, _ = w.Put(frame)
			}
		}
	})
	t.Cleanup(func() { cancel(); feeder.Wait() })
}

// processorOf is how many seconds a process has spent computing.
func processorOf(t testing.TB, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return float64(user+system) / 100 // USER_HZ
}
