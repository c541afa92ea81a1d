package testnet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// usage is what a process takes of its host: bytes of memory, in all, without the
// channels and the program's file, and of the channels; descriptors; threads.
type usage struct {
	resident, anonymous, shared, descriptors, threads int
}

func (u usage) String() string {
	return fmt.Sprintf("%.1f MiB (%.1f of its own, %.1f of channels), %d descriptors, %d threads",
		mib(u.resident), mib(u.anonymous), mib(u.shared), u.descriptors, u.threads)
}

// usage reads what the kernel counts of a process that runs.
func (p *process) usage() (u usage, err error) {
	dir := fmt.Sprintf("/proc/%d", p.Process.Pid)
	text, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return u, err
	}
	open, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return u, err
	}
	u.descriptors = len(open)
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		number, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		n, _ := strconv.Atoi(number) // of other lines
		switch key {
		case "VmRSS":
			u.resident = n << 10
		case "RssAnon":
			u.anonymous = n << 10
		case "RssShmem":
			u.shared = n << 10
		case "Threads":
			u.threads = n
		}
	}
	if u.resident == 0 || u.anonymous == 0 || u.threads == 0 {
		return u, fmt.Errorf("%s: no VmRSS, RssAnon and Threads in\n%s", dir, text)
	}
	return u, nil
}

// levels are the usages of the daemons that live through a soak.
func (w *soak) levels() map[string]usage {
	w.t.Helper()
	levels := map[string]usage{}
	for host, p := range map[string]*process{"robot": w.robot, "pc": w.pc} {
		u, err := p.usage()
		if err != nil {
			w.t.Fatal(err)
		}
		levels[host] = u
	}
	return levels
}

// backAt waits until the daemons have no more descriptors than they had, and
// hardly more threads: Go keeps those that it once needed.
func (w *soak) backAt(before map[string]usage) {
	w.t.Helper()
	await(w.t, patience, func() error {
		for host, u := range w.levels() {
			if u.descriptors > before[host].descriptors || u.threads > before[host].threads+moreThreads {
				return fmt.Errorf("daemon of %s: got %v, want not more than %v", host, u, before[host])
			}
		}
		return nil
	})
}

const moreThreads = 8

// thirds are what a soak consists of.
const thirds = 3

// history is the usage of processes, taken every second.
type history struct {
	t      *testing.T
	names  []string
	usages [][thirds][]usage
	third  atomic.Int32 // which it is now
	stop   chan struct{}
	done   chan struct{}
}

// sample watches the daemons of robot and PC until the end.
func sample(t *testing.T, robot, pc *process) *history {
	t.Helper()
	h := &history{t: t, names: []string{"robot", "pc"}, usages: make([][thirds][]usage, 2), stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(h.done)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-h.stop:
				return
			case <-ticker.C:
			}
			for i, p := range []*process{robot, pc} {
				u, err := p.usage()
				if err != nil {
					h.t.Errorf("daemon of %s: %v", h.names[i], err)
					return
				}
				third := &h.usages[i][h.third.Load()]
				*third = append(*third, u)
			}
		}
	}()
	t.Cleanup(h.end)
	return h
}

// begin says which third begins.
func (h *history) begin(third int) { h.third.Store(int32(third)) }

func (h *history) end() {
	select {
	case <-h.stop:
	default:
		close(h.stop)
	}
	<-h.done
}

// memoryClaim is the least soak whose thirds can be compared.
const memoryClaim = 5 * time.Minute

// claim looks at what was sampled. A soak that was long enough must not have grown.
func (h *history) claim(length time.Duration) {
	h.t.Helper()
	for i, parts := range h.usages {
		for third, list := range parts {
			if len(list) == 0 {
				h.t.Fatalf("daemon of %s: got no samples in third %d", h.names[i], third)
			}
		}
		late := slices.Concat(parts[1], parts[2])
		h.t.Logf("daemon of %s: peaks of the thirds: %v; %v; %v; slope of the last two: %.2f MiB/h, of its own %.2f MiB/h",
			h.names[i], peak(parts[0]), peak(parts[1]), peak(parts[2]), slope(late, resident), slope(late, anonymous))
		h.t.Logf("daemon of %s: least memory of the thirds: %.1f; %.1f; %.1f MiB", h.names[i], mib(least(parts[0])), mib(least(parts[1])), mib(least(parts[2])))
		if err := grown(parts[1], parts[2]); err != nil && length >= memoryClaim {
			h.t.Errorf("daemon of %s: %v", h.names[i], err)
		}
	}
}

// What memory may grow by from the middle third to the last. A leak lifts the peak and the
// floor. When Go collects late, on a machine with other work, that lifts the peak alone.
const (
	mostPeak  = 1.05 // if the floor has grown too
	mostFloor = 1.02
	mostBurst = 1.25 // of the peak, whatever the floor
)

// grown reports memory of which the last third has more than the middle one.
func grown(middle, last []usage) error {
	top := float64(peak(last).resident) / float64(peak(middle).resident)
	floor := float64(least(last)) / float64(least(middle))
	if top > mostBurst || top > mostPeak && floor > mostFloor {
		return fmt.Errorf("memory: got a peak of %v in the last third after %v in the middle one, %.3f times as much, and a floor %.3f times as high; want at most %v and %v times, or %v times with the floor as it was",
			peak(last), peak(middle), top, floor, mostPeak, mostFloor, mostBurst)
	}
	return nil
}

// least is the least that was resident.
func least(list []usage) int {
	return slices.MinFunc(list, func(a, b usage) int { return a.resident - b.resident }).resident
}

func mib(n int) float64 { return float64(n) / (1 << 20) }

func TestSoakSeesMemoryThatGrows(t *testing.T) {
	for name, c := range map[string]struct {
		perSample int
		want      bool
	}{"steady": {0, false}, "0.2 % a sample": {20_000, true}, "shrinking": {-20_000, false}} {
		var list []usage
		for i := range 200 {
			list = append(list, usage{resident: 10_000_000 + i*c.perSample})
		}
		if err := grown(list[:100], list[100:]); (err != nil) != c.want {
			t.Errorf("%s: got %v, want an error: %v", name, err, c.want)
		}
	}
	flat := slices.Repeat([]usage{{resident: 10_000_000}}, 100)
	for burst, want := range map[int]bool{12_400_000: false, 12_600_000: true} {
		with := slices.Clone(flat)
		with[50].resident = burst
		if err := grown(flat, with); (err != nil) != want {
			t.Errorf("a burst to %d: got %v, want an error: %v", burst, err, want)
		}
	}
}

// peak is the most of each.
func peak(list []usage) (most usage) {
	for _, u := range list {
		most.resident, most.anonymous, most.shared = max(most.resident, u.resident), max(most.anonymous, u.anonymous), max(most.shared, u.shared)
		most.descriptors, most.threads = max(most.descriptors, u.descriptors), max(most.threads, u.threads)
	}
	return most
}

func resident(u usage) int  { return u.resident }
func anonymous(u usage) int { return u.anonymous }

// slope is how fast a usage grows, by least squares, in MiB an hour.
func slope(list []usage, of func(usage) int) float64 {
	var x, y, xx, xy float64
	for i, u := range list {
		at, mib := float64(i)/3600, float64(of(u))/(1<<20)
		x, y, xx, xy = x+at, y+mib, xx+at*at, xy+at*mib
	}
	n := float64(len(list))
	return (n*xy - x*y) / (n*xx - x*x)
}
