package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/view"
	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
)

// TestStatusTellsTheAgeThatAReaderSees compares mean and p99 of ten seconds as the status
// tells them with those of a program that only reads the mirror and goes by the stamps in
// its frames: real processes on two emulated hosts, whose monotonic clock is the same.
func TestStatusTellsTheAgeThatAReaderSees(t *testing.T) {
	need.Long(t)
	lab := hosts.StartTest(t, hosts.Config{Hosts: []string{"robot", "pc"}, Link: "delay=5ms"})
	dir, key := t.TempDir(), newKeyFile(t)
	publisher := filepath.Join(dir, "publisher")
	if err := hosts.Build(dir, "achbridge/testnet/publisher"); err != nil {
		t.Fatal(err)
	}
	run := func(host, program string, args ...string) *lockedBuffer {
		t.Helper()
		cmd, out := lab.Command(host, program, args...), &lockedBuffer{}
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return out
	}
	address, err := lab.Addr("robot")
	if err != nil {
		t.Fatal(err)
	}
	run("robot", publisher, "--channel", "imu:90:64")
	control := filepath.Join(dir, "pc.sock")
	run("robot", "achbridge", "run", "--name", "robot", "--key", key, "--control", filepath.Join(dir, "robot.sock"), "--state", dir+"/robot", "--no-discovery")
	run("pc", "achbridge", "run", "--name", "pc", "--key", key, "--control", control, "--state", dir+"/pc", "--no-discovery",
		"--peer", address.String(), "--mirror", "robot/imu")
	seen := run("pc", "age-reader", "robot.imu")

	o := observed{t: t, seen: seen, client: (&app{Host: view.Host{Places: config.Places{Env: os.Getenv}}}).Client(control)}
	await.NoError(t, func() error { _, err := o.client.Get(t.Context(), "/v1/status", new(any)); return err })
	time.Sleep(12 * time.Second) // the window is full, of what the reader saw too

	// A reader that does not get a processor at once sees frames later than they came.
	var last error
	for range 8 {
		if last = o.compare(); last == nil {
			return
		}
		time.Sleep(3 * time.Second)
	}
	t.Error(last)
}

// observed is a mirror in two ways of looking at it.
type observed struct {
	t      *testing.T
	seen   *lockedBuffer
	client *api.Client
}

func (o *observed) compare() error {
	o.t.Helper()
	// What the daemon's uptime is on the monotonic clock: to half of the shortest answer.
	var s api.StatusReply
	began, within := 0.0, math.Inf(1)
	for range 20 {
		before := machineClock()
		if _, err := o.client.Get(o.t.Context(), "/v1/status", &s); err != nil {
			o.t.Fatal(err)
		}
		if after := machineClock(); after-before < within {
			began, within = (before+after)/2-s.UptimeS, after-before
		}
	}
	a := s.Mirrors[0].Age
	mean, p99 := ageOf(o.sightings(began), s.UptimeS-a.Window.WindowS, s.UptimeS)
	o.t.Logf("status: mean %.3f, p99 %.3f ms; the reader: %.3f, %.3f ms (± %.3f)", a.Window.MeanMs, a.Window.P99Ms, mean, p99, a.UncertaintyMs)
	if most := 1 + a.UncertaintyMs; !(math.Abs(a.Window.MeanMs-mean) <= most && math.Abs(a.Window.P99Ms-p99) <= most) {
		return fmt.Errorf("status: mean %.3f, p99 %.3f ms, but a reader saw %.3f and %.3f: more than 1 ms + %.3f apart", a.Window.MeanMs, a.Window.P99Ms, mean, p99, a.UncertaintyMs)
	}
	return nil
}

// sightings are what the reader has printed, in seconds of the daemon's uptime.
func (o *observed) sightings(began float64) (list [][2]float64) {
	for line := range strings.Lines(o.seen.String()) {
		var at, stamp int64
		if _, err := fmt.Sscan(line, &at, &stamp); err != nil {
			o.t.Fatalf("age-reader: %s", line)
		}
		list = append(list, [2]float64{float64(at)/1e9 - began, float64(stamp)/1e9 - began})
	}
	return list
}

// ageOf is the mean age, and that which was not exceeded in 99 % of the time, of
// sightings of frames, each at a time with its stamp, from one time to another.
func ageOf(sightings [][2]float64, from, to float64) (mean, p99 float64) {
	const step = 50e-6
	var ages []float64
	i := 0
	for at := from; at < to; at += step {
		for i+1 < len(sightings) && sightings[i+1][0] <= at {
			i++
		}
		ages = append(ages, 1000*(at-sightings[i][1]))
		mean += ages[len(ages)-1]
	}
	slices.Sort(ages)
	return mean / float64(len(ages)), ages[len(ages)*99/100]
}

// ageReader is the program: it reads channel NAME and prints for each frame when it saw
// it and the stamp of its put, in ns of the monotonic clock.
func ageReader() {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20) // to see frames when they come
	var ch *localach.Channel
	for ch == nil {
		ch, _ = localach.Shm.Open(os.Args[1])
		time.Sleep(10 * time.Millisecond)
	}
	r, frame := ch.Reader(), make([]byte, ch.Geometry().FrameSize)
	for seq := uint64(0); ; {
		if last := ch.LastSeq(); last != seq {
			at := int64(machineClock() * 1e9)
			if n, err := r.Last(frame); err == nil && n >= 16 {
				seq = last
				fmt.Println(at, binary.LittleEndian.Uint64(frame[8:]))
			}
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// machineClock is the machine's CLOCK_MONOTONIC, in seconds.
func machineClock() float64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it is there
	return float64(ts.Nano()) / 1e9
}

// lockedBuffer is a buffer that a process writes while others read.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

// String is what was written up to the end of a line.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.text.String()
	return text[:strings.LastIndexByte(text, '\n')+1]
}
