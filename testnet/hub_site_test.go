package testnet_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// fleet is a site whose hosts reach each other only through a hub, which is another host.
type fleet struct {
	*site
	dir   string
	hub   *process
	sent  map[string]*atomic.Int64 // bytes of IP packets, by FROM>TO
	views map[string]*observation
}

// newFleet starts the hosts, with perfect links, and runs the hub.
func newFleet(t *testing.T, names ...string) *fleet {
	t.Helper()
	all := append([]string{"hub"}, names...)
	f := &fleet{site: siteOf(t, "", all...), dir: t.TempDir(), sent: map[string]*atomic.Int64{}, views: map[string]*observation{}}
	f.must("hub", "hub", "init", "hub", "--dir", f.hubDir())
	for _, from := range all {
		for _, to := range all {
			f.sent[from+">"+to] = &atomic.Int64{}
		}
		if from == "hub" {
			continue
		}
		f.must("hub", "hub", "add", from, "--dir", f.hubDir(), "--out", f.credentials(from))
		for _, to := range names {
			if from != to {
				f.link(from+">"+to, "cut")
			}
		}
	}
	t.Cleanup(f.lab.Listen(func(host string, frame []byte) {
		if to := int(frame[5]) - 1; frame[0]&1 == 0 && to >= 0 && to < len(all) {
			f.sent[host+">"+all[to]].Add(int64(len(frame) - ethernetHeader))
		}
	}))
	f.hub = f.start("hub", "achbridge", "hub", "--dir", f.hubDir())
	return f
}

const ethernetHeader = 14

func (f *fleet) hubDir() string { return filepath.Join(f.dir, "hub") }

func (f *fleet) credentials(host string) string { return filepath.Join(f.dir, host+".creds") }

// join starts the daemon of a host with credentials for the hub.
func (f *fleet) join(host string, args ...string) *process {
	f.t.Helper()
	return f.run(host, append([]string{"--hub-creds", f.credentials(host)}, args...)...)
}

// meet allows two hosts to reach each other directly.
func (f *fleet) meet(a, b string) {
	f.t.Helper()
	f.link(a+">"+b, "up")
	f.link(b+">"+a, "up")
}

// ageStats are statistics of a mirror: the ages of its newest frame over time, and its frames.
type ageStats struct {
	mean, p50, p99, worst time.Duration
	hz                    float64
	size                  int // size of a frame in bytes
}

func (f ageStats) String() string {
	return fmt.Sprintf("age %.2f ms, p50 %.2f, p99 %.2f, worst %.1f, %.0f Hz", inMs(f.mean), inMs(f.p50), inMs(f.p99), inMs(f.worst), f.hz)
}

func inMs(d time.Duration) float64 { return float64(d) / 1e6 }

// measurement has the statistics of each view, and the traffic.
type measurement struct {
	duration time.Duration
	views    map[string]ageStats      // statistics by HOST:CHANNEL
	wire     map[string]float64       // bytes a second, by FROM>TO
	cpuTime  map[string]time.Duration // CPU time by name of the process
}

// measure waits for settle and then measures channels, given as HOST:CHANNEL, for length.
func (f *fleet) measure(settle, length time.Duration, processes map[string]*process, channels ...string) measurement {
	f.t.Helper()
	for _, name := range channels {
		f.watch(name)
	}
	for _, name := range channels {
		_, channel, _ := strings.Cut(name, ":")
		f.views[name].waitForFrame("keep:"+channel, "frame", func(s observedFrame) bool { return s.Err == "" })
	}
	time.Sleep(settle)
	m := measurement{views: map[string]ageStats{}, wire: map[string]float64{}, cpuTime: map[string]time.Duration{}}
	from, before := monotonic(), map[string]int64{}
	for way, n := range f.sent {
		before[way] = n.Load()
	}
	for name, p := range processes {
		m.cpuTime[name] = -p.cpuTime()
	}
	time.Sleep(length)
	to := monotonic()
	m.duration = time.Duration(to - from)
	for way, n := range f.sent {
		m.wire[way] = float64(n.Load()-before[way]) / m.duration.Seconds()
	}
	for name, p := range processes {
		m.cpuTime[name] += p.cpuTime()
	}
	time.Sleep(100 * time.Millisecond) // until the observers have printed their frames
	for _, name := range channels {
		_, channel, _ := strings.Cut(name, ":")
		o := f.views[name]
		o.mu.Lock()
		m.views[name] = ageBetween(o.frames["keep:"+channel], from, to)
		o.mu.Unlock()
	}
	return m
}

// watch starts an observer of a channel HOST:CHANNEL.
func (f *fleet) watch(name string) {
	f.t.Helper()
	if f.views[name] == nil {
		host, channel, _ := strings.Cut(name, ":")
		f.views[name] = f.observe(host, "keep:"+channel)
	}
}

// ageBetween samples the age between from and to, every 0.1 ms.
func ageBetween(frames []observedFrame, from, to int64) (a ageStats) {
	const step = 100_000
	var ages []time.Duration
	var sum time.Duration
	i := 0
	for at := from; at < to; at += step {
		for i+1 < len(frames) && frames[i+1].Time <= at {
			i++
		}
		if i < len(frames) && frames[i].Time <= at && frames[i].Err == "" {
			age := time.Duration(at - frames[i].Put)
			sum += age
			ages = append(ages, age)
		}
	}
	if len(ages) == 0 {
		return a
	}
	for _, s := range frames {
		if s.Time >= from && s.Time < to {
			a.hz, a.size = a.hz+1, s.Size
		}
	}
	a.hz /= time.Duration(to - from).Seconds()
	slices.Sort(ages)
	n := len(ages)
	a.mean, a.p50, a.p99, a.worst = sum/time.Duration(n), ages[n/2], ages[n*99/100], ages[n-1]
	return a
}
