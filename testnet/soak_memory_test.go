package testnet_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"achbridge/testnet/await"
)

// usage is the resources of a process: memory in bytes, descriptors and threads.
type usage struct{ resident, descriptors, threads int }

func (u usage) String() string {
	return fmt.Sprintf("%.1f MiB, %d descriptors, %d threads", float64(u.resident)/(1<<20), u.descriptors, u.threads)
}

// usage reads the resources of a running process.
func (p *process) usage() (u usage, err error) {
	dir := fmt.Sprintf("/proc/%d/", p.Process.Pid)
	text, err := os.ReadFile(dir + "statm")
	if err != nil {
		return u, err
	}
	open, err := os.ReadDir(dir + "fd")
	if err != nil {
		return u, err
	}
	var size, pages int
	_, err = fmt.Fscan(strings.NewReader(string(text)), &size, &pages)
	return usage{pages * os.Getpagesize(), len(open), len(p.tasks())}, err
}

// usages returns the resources of the daemons that run during the whole soak.
func (w *soak) usages() map[string]usage {
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

// waitUntilBackAt waits until the daemons have no more descriptors than before, and at
// most moreThreads more threads, since Go keeps threads that it once needed.
func (w *soak) waitUntilBackAt(before map[string]usage) {
	w.t.Helper()
	await.NoError(w.t, func() error {
		for host, u := range w.usages() {
			if u.descriptors > before[host].descriptors || u.threads > before[host].threads+moreThreads {
				return fmt.Errorf("daemon of %s: got %v, want not more than %v", host, u, before[host])
			}
		}
		return nil
	})
}

const moreThreads = 8

// thirds is the number of equal parts of a soak.
const thirds = 3

// memoryHistory records the memory of processes every second.
type memoryHistory struct {
	t      *testing.T
	names  []string
	memory [][thirds][]int
	third  atomic.Int32 // index of the current third
	stop   chan struct{}
	done   chan struct{}
}

// sample records the memory of the daemons of robot and PC until end is called.
func sample(t *testing.T, robot, pc *process) *memoryHistory {
	t.Helper()
	h := &memoryHistory{t: t, names: []string{"robot", "pc"}, memory: make([][thirds][]int, 2), stop: make(chan struct{}), done: make(chan struct{})}
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
				third := &h.memory[i][h.third.Load()]
				*third = append(*third, u.resident)
			}
		}
	}()
	t.Cleanup(h.end)
	return h
}

// begin begins a third.
func (h *memoryHistory) begin(third int) { h.third.Store(int32(third)) }

func (h *memoryHistory) end() {
	select {
	case <-h.stop:
	default:
		close(h.stop)
	}
	<-h.done
}

// minComparableSoak is the shortest soak whose thirds can be compared.
const minComparableSoak = 5 * time.Minute

// check logs the memory of each third, and fails the test if it grew in a soak of minComparableSoak or more.
func (h *memoryHistory) check(length time.Duration) {
	h.t.Helper()
	for i, parts := range h.memory {
		for third, list := range parts {
			if len(list) == 0 {
				h.t.Fatalf("daemon of %s: got no samples in third %d", h.names[i], third)
			}
			h.t.Logf("daemon of %s: memory in third %d: %d to %d KiB", h.names[i], third+1, slices.Min(list)>>10, slices.Max(list)>>10)
		}
		if err := checkGrowth(parts[1], parts[2]); err != nil && length >= minComparableSoak {
			h.t.Errorf("daemon of %s: %v", h.names[i], err)
		}
	}
}

// Limits for the growth of memory from the middle third to the last. A leak raises both the
// peak and the floor. Garbage that is collected late, on a busy machine, raises only the peak.
const (
	mostPeak  = 1.05 // growth of the peak if the floor has grown too
	mostFloor = 1.02
	mostBurst = 1.25 // growth of the peak in any case
)

// checkGrowth returns an error if the last third has more memory than the middle one.
func checkGrowth(middle, last []int) error {
	top := float64(slices.Max(last)) / float64(slices.Max(middle))
	floor := float64(slices.Min(last)) / float64(slices.Min(middle))
	if top > mostBurst || top > mostPeak && floor > mostFloor {
		return fmt.Errorf("memory: the peak of the last third is %.3f times that of the middle one, and its floor %.3f times as high; want at most %v and %v times, or %v times with the floor as it was",
			top, floor, mostPeak, mostFloor, mostBurst)
	}
	return nil
}

func TestSoakDetectsMemoryGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		perSample, burst int
		want             bool
	}{"steady": {0, 0, false}, "0.2 % a sample": {20_000, 0, true}, "shrinking": {-20_000, 0, false},
		"a burst": {0, 2_400_000, false}, "a larger burst": {0, 2_600_000, true}} {
		var list []int
		for i := range 200 {
			list = append(list, 10_000_000+i*c.perSample)
		}
		list[150] += c.burst
		if err := checkGrowth(list[:100], list[100:]); (err != nil) != c.want {
			t.Errorf("%s: grown = %v, want an error: %v", name, err, c.want)
		}
	}
}
