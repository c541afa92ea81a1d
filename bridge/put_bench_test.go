package bridge

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/trust"
	"achbridge/localach"
	"achbridge/testnet/need"
)

// plainPeer compiles the C program of localach's tests. It uses channels as libach does, and
// shares no code with us.
func plainPeer(b testing.TB) (program string) {
	b.Helper()
	need.Program(b, "cc", "gcc")
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

// figures parses the figures that the C program prints at its end.
func figures(text []byte) map[string]float64 {
	all := map[string]float64{}
	for _, field := range strings.Fields(string(text)) {
		if key, value, ok := strings.Cut(field, "="); ok {
			all[key], _ = strconv.ParseFloat(value, 64)
		}
	}
	return all
}

// puts is a channel that a C writer feeds at 1 kHz, a node that sends it, and a peer that may
// mirror it. Each is a process, with real sockets and shared memory.
type puts struct {
	sender, receiver *child
	program, path    string
	size             int
	fifo             bool // the writer has real-time priority
}

// The states of the channel: without a reader, or mirrored.
const (
	unwatched = iota
	mirrored
)

// newPuts makes the channel and starts the nodes.
func newPuts(b *testing.B, program string, size int, fifo bool) *puts {
	b.Helper()
	top := string(testDir(b))
	dir := localach.Dir(top + "/robot")
	if err := os.Mkdir(string(dir), 0o700); err != nil {
		b.Fatal(err)
	}
	ch, err := dir.Create("c0", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: size}})
	if err != nil {
		b.Fatal(err)
	}
	ch.Close()
	p := &puts{program: program, path: dir.Path("c0"), size: size, fifo: fifo}
	key := top + "/key"
	if err := trust.NewKey().Write(key); err != nil {
		b.Fatal(err)
	}
	var port string
	p.sender, port = play(b, key, "robot", string(dir))
	p.receiver, _ = play(b, key, "pc", top+"/pc", "127.0.0.1:"+port)
	return p
}

// write lets the C program put for half a second in a state of the channel. It returns the
// durations of the puts, in ns.
func (p *puts) write(b *testing.B, state int) map[string]float64 {
	b.Helper()
	if state == mirrored {
		p.receiver.ask("mirror robot/*")
		defer func() {
			if p.receiver.ask("frames") == "0" {
				b.Fatal("no frame has come to the mirror")
			}
			p.receiver.ask("unmirror robot/*")
		}()
		time.Sleep(100 * time.Millisecond) // time to subscribe
	}
	writer := exec.Command(p.program, p.path, "put", "500", strconv.Itoa(p.size), "1000000", "1")
	if p.fifo {
		writer = exec.Command("chrt", append([]string{"-f", "50"}, writer.Args...)...)
	}
	out, err := writer.Output()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return figures(out)
}

// BenchmarkMirroredPut measures the puts of a process at 1 kHz in two states. In one the node
// mirrors the frames; in the other the channel has no reader. The results are medians of twenty pairs in ABBA order (two, unless ACHBRIDGE_LONG=1),
// for a writer at normal and at real-time priority. The goal for p50 and p99.9 is at most 1.1
// times, or 1 µs more, whichever is larger. No process has a CPU of its own.
func BenchmarkMirroredPut(b *testing.B) {
	program, pairs := plainPeer(b), need.LongOr(20, 2)
	for _, size := range []int{64, 300_000} {
		for _, fifo := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dB/fifo=%v", size, fifo), func(b *testing.B) {
				if fifo {
					need.Program(b, "chrt", "util-linux")
				}
				for b.Loop() {
					p := newPuts(b, program, size, fifo)
					p.compare(b, pairs)
					p.receiver.end()
					p.sender.end()
				}
			})
		}
	}
}

// compare reports the puts of the given number of pairs.
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
