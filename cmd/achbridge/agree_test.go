package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// TestStatusAgeEqualsAgeAtReader compares the mean and p99 of the age in the status with
// those of a program that only reads the mirror and the timestamps in its frames. The window is
// ten seconds. Real processes run on two emulated hosts, which share a monotonic clock.
func TestStatusAgeEqualsAgeAtReader(t *testing.T) {
	need.Long(t)
	lab := hosts.StartTest(t, hosts.Config{Hosts: []string{"robot", "pc"}, Link: "delay=5ms"})
	dir, key := t.TempDir(), newKeyFile(t)
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
	run("robot", "achbridge", "publish", "imu:90:64")
	control := filepath.Join(dir, "pc.sock")
	run("robot", "achbridge", "run", "--name", "robot", "--key", key, "--control", filepath.Join(dir, "robot.sock"), "--state", dir+"/robot", "--no-discovery")
	run("pc", "achbridge", "run", "--name", "pc", "--key", key, "--control", control, "--state", dir+"/pc", "--no-discovery",
		"--peer", address.String(), "--mirror", "robot/imu")
	seen := run("pc", "age-reader", "robot.imu")

	o := observed{t: t, output: seen, client: (&app{Host: view.Host{Places: config.Places{Env: os.Getenv}}}).Client(control)}
	await.NoError(t, func() error { _, err := o.client.Get(t.Context(), "/v1/status", new(any)); return err })
	time.Sleep(12 * time.Second) // fill the window of the daemon and that of the reader

	// A reader that has to wait for a CPU sees frames later than they arrived, so try again.
	var last error
	for range 8 {
		if last = o.compare(); last == nil {
			return
		}
		time.Sleep(3 * time.Second)
	}
	t.Error(last)
}

// observed is a mirror observed twice: by an age-reader process and by the daemon's status.
type observed struct {
	t      *testing.T
	output *lockedBuffer
	client *api.Client
}

func (o *observed) compare() error {
	o.t.Helper()
	// Find the start of the daemon on the monotonic clock. The error is at most half of the shortest round trip.
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
	mean, p99 := ageOf(o.ageSamples(began), s.UptimeS-a.Window.WindowS, s.UptimeS)
	o.t.Logf("status: mean %.3f, p99 %.3f ms; the reader: %.3f, %.3f ms (± %.3f)", a.Window.MeanMs, a.Window.P99Ms, mean, p99, a.UncertaintyMs)
	if most := 1 + a.UncertaintyMs; !(math.Abs(a.Window.MeanMs-mean) <= most && math.Abs(a.Window.P99Ms-p99) <= most) {
		return fmt.Errorf("status: got mean %.3f, p99 %.3f ms, want the reader's %.3f and %.3f within 1 ms + %.3f", a.Window.MeanMs, a.Window.P99Ms, mean, p99, a.UncertaintyMs)
	}
	return nil
}

// ageSamples returns the lines of the reader: time seen and timestamp, both in seconds of the daemon's uptime.
func (o *observed) ageSamples(began float64) (list [][2]float64) {
	for line := range strings.Lines(o.output.String()) {
		var at, stamp int64
		if _, err := fmt.Sscan(line, &at, &stamp); err != nil {
			o.t.Fatalf("age-reader: %s", line)
		}
		list = append(list, [2]float64{float64(at)/1e9 - began, float64(stamp)/1e9 - began})
	}
	return list
}

// ageOf returns the time-weighted mean and 99th percentile of the age, in ms, between two times.
// A sighting is the time at which a frame was seen, and its timestamp.
func ageOf(samples [][2]float64, from, to float64) (mean, p99 float64) {
	const step = 50e-6
	var ages []float64
	i := 0
	for at := from; at < to; at += step {
		for i+1 < len(samples) && samples[i+1][0] <= at {
			i++
		}
		ages = append(ages, 1000*(at-samples[i][1]))
		mean += ages[len(ages)-1]
	}
	slices.Sort(ages)
	return mean / float64(len(ages)), ages[len(ages)*99/100]
}

// ageReader is the main function of age-reader NAME. For each frame of the channel, it prints the
// time at which it saw the frame and the frame's timestamp, in ns of the monotonic clock.
func ageReader() {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20) // to see frames as soon as they arrive
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

// machineClock returns CLOCK_MONOTONIC in seconds.
func machineClock() float64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // every kernel has CLOCK_MONOTONIC
	return float64(ts.Nano()) / 1e9
}

// lockedBuffer is a buffer that can be read while a process writes to it.
type lockedBuffer struct{ await.Log }

// String returns the complete lines that were written.
func (b *lockedBuffer) String() string {
	text := b.Log.String()
	return text[:strings.LastIndexByte(text, '\n')+1]
}
