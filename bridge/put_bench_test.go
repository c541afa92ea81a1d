package bridge

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/localach"
)

// plainPeer compiles the C program of localach's tests, which uses channels as libach
// does, and shares no line with us.
func plainPeer(b *testing.B) (program string) {
	b.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		if os.Getenv("ACHBRIDGE_NO_SKIP") == "1" {
			b.Fatal(err)
		}
		b.Skip("a C compiler is missing: apt-get install gcc libc6-dev")
	}
	program = filepath.Join(b.TempDir(), "peer")
	sources, err := filepath.Glob("../localach/testdata/peer/*.c")
	if err != nil {
		b.Fatal(err)
	}
	out, err := exec.Command("cc", append([]string{"-O2", "-pthread", "-o", program}, sources...)...).CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return program
}

// figures are what the C program says at its end.
func figures(text []byte) map[string]float64 {
	all := map[string]float64{}
	for _, field := range strings.Fields(string(text)) {
		if key, value, ok := strings.Cut(field, "="); ok {
			all[key], _ = strconv.ParseFloat(value, 64)
		}
	}
	return all
}

// puts is a channel that a C writer feeds at 1 kHz, and what may read it.
type puts struct {
	hosts         hostsUnderLoad
	program, path string
	size          int
	fifo          bool // the writer has real-time priority
	free          bool // it runs on any processor
}

// The states of the channel: nobody reads it, it is mirrored, or one C reader waits
// on its condition variable.
const (
	unwatched = iota
	mirrored
	waitedFor
)

// write has the C program put for half a second in a state of the channel, and
// returns how long its puts took, in ns.
func (p *puts) write(b *testing.B, state int) map[string]float64 {
	b.Helper()
	switch state {
	case mirrored:
		p.hosts.receiver.ask("mirror robot/*")
		defer func() {
			if p.hosts.receiver.spent().Frames == 0 {
				b.Fatal("no frame has come to the mirror")
			}
			p.hosts.receiver.ask("unmirror robot/*")
		}()
		time.Sleep(100 * time.Millisecond) // it has subscribed by then
	case waitedFor:
		reader := exec.Command(p.program, p.path, "get", "0", "wl", "300") // and at its end it waits so long
		if err := reader.Start(); err != nil {
			b.Fatal(err)
		}
		defer func() {
			reader.Process.Signal(syscall.SIGTERM)
			reader.Wait()
		}()
	}
	writer := exec.Command(p.program, p.path, "put", "500", strconv.Itoa(p.size), "1000000", "1")
	if p.fifo {
		writer = exec.Command("chrt", append([]string{"-f", "50"}, writer.Args...)...)
	}
	var out bytes.Buffer
	writer.Stdout = &out
	var err error
	if p.free {
		err = writer.Start()
	} else {
		onCore(0, func() { err = writer.Start() })
	}
	if err == nil {
		err = writer.Wait()
	}
	if err != nil {
		b.Fatalf("%v: %s", err, &out)
	}
	return figures(out.Bytes())
}

// onCore has what f starts run on one processor only, if there are several.
func onCore(number int, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || all.Count() < 2 {
		f()
		return
	}
	for cpu := range 1024 {
		if all.IsSet(cpu) {
			if number == 0 {
				one.Set(cpu)
			}
			number--
		}
	}
	unix.SchedSetaffinity(0, &one)
	defer unix.SchedSetaffinity(0, &all)
	f()
}

// BenchmarkPutLatency is how long the puts of a process at 1 kHz take when its
// channel is mirrored, as a ratio to the same channel that nobody reads (p50 and p99:
// at most 1.1), and to the same with one plain C reader waiting (at most 1): medians
// of ten rounds in ABBA order. The writer has a processor of its own, as control loops
// have: else it is the scheduler that is measured, above all with large frames, of
// which the nodes send as many as they have time for.
func BenchmarkPutLatency(b *testing.B) {
	program := plainPeer(b)
	for _, size := range []int{64, 300_000} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			for b.Loop() {
				var h hostsUnderLoad
				var dir localach.Dir
				onCore(1, func() { h, dir = newHosts(b, 1, size, 1) })
				p := &puts{hosts: h, program: program, path: filepath.Join(string(dir), "achshm-c0"), size: size}
				rounds := [3]map[string][]float64{{}, {}, {}}
				order := []int{unwatched, mirrored, waitedFor}
				for range 10 {
					for _, state := range order {
						for key, value := range p.write(b, state) {
							rounds[state][key] = append(rounds[state][key], value)
						}
					}
					slices.Reverse(order)
				}
				for _, key := range []string{"p50", "p99", "p999"} {
					all := func(state int) []float64 { return rounds[state][key+"_ns"] }
					b.ReportMetric(median(all(unwatched)), key+"-ns-unwatched")
					b.ReportMetric(median(ratios(all(mirrored), all(unwatched))), key+"-mirrored/unwatched≤1.1")
					b.ReportMetric(median(ratios(all(mirrored), all(waitedFor))), key+"-mirrored/waited≤1")
				}
				b.ReportMetric(0, "ns/op")
				h.receiver.end()
				h.sender.end()
			}
		})
	}
}

// BenchmarkPutWhileForeseen is how long the puts of a process at 1 kHz take when the node expects
// its frames (phase-locked looks) and mirrors them, and when nobody reads the channel: medians of
// twenty pairs in ABBA order (two, unless ACHBRIDGE_LONG=1), of a writer at normal and at real-time priority. Wanted is for p50 and
// p99.9 each at most 1.1 times, or 1 µs more, whichever is larger. Nothing has a processor of
// its own: a node that has only one does not look without pause.
func BenchmarkPutWhileForeseen(b *testing.B) {
	program, pairs := plainPeer(b), 2
	if isLong() {
		pairs = 20
	}
	for _, size := range []int{64, 300_000} {
		for _, fifo := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dB/fifo=%v", size, fifo), func(b *testing.B) {
				if _, err := exec.LookPath("chrt"); err != nil && fifo {
					b.Skip("chrt is missing: apt-get install util-linux")
				}
				for b.Loop() {
					h, dir := newHosts(b, 1, size, 1)
					p := &puts{hosts: h, program: program, path: filepath.Join(string(dir), "achshm-c0"), size: size, fifo: fifo, free: true}
					p.compare(b, pairs)
					h.receiver.end()
					h.sender.end()
				}
			})
		}
	}
}

// compare reports the puts of so many pairs.
func (p *puts) compare(b *testing.B, pairs int) {
	var rounds [2]map[string][]float64
	for i := range rounds {
		rounds[i] = map[string][]float64{}
	}
	order := []int{unwatched, mirrored}
	for range pairs {
		for _, state := range order {
			for key, value := range p.write(b, state) {
				rounds[state][key] = append(rounds[state][key], value)
			}
		}
		slices.Reverse(order)
	}
	for _, key := range []string{"p50", "p999"} {
		without, with := rounds[unwatched][key+"_ns"], rounds[mirrored][key+"_ns"]
		b.ReportMetric(median(without), key+"-ns-unwatched")
		b.ReportMetric(median(with), key+"-ns-mirrored")
		b.ReportMetric(median(ratios(with, without)), key+"-mirrored/unwatched≤1.1")
	}
	b.ReportMetric(0, "ns/op")
}

func ratios(a, b []float64) (r []float64) {
	for i := range a {
		r = append(r, a[i]/b[i])
	}
	return r
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
