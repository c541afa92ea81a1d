package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/localach"
	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
)

// TestAllTellTheAgeThatAReaderSees compares mean and p99 of ten seconds as status, the
// metrics and the page tell them with those of a program that only reads the mirror and
// goes by the stamps in its frames: real processes on two emulated hosts, whose
// monotonic clock is the same.
func TestAllTellTheAgeThatAReaderSees(t *testing.T) {
	need.Long(t)
	chromium := need.Program(t, "chromium", "chromium")
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
		"--peer", address.String(), "--mirror", "robot/imu", "--http", ":9476")
	seen := run("pc", "age-reader", "robot.imu")

	o := observed{t: t, lab: lab, seen: seen, client: (&app{Places: config.Places{Env: os.Getenv}}).client(control), b: startBrowser(t, enterScript(t, lab, chromium))}
	do(o.b, chromedp.Navigate("http://127.0.0.1:9476/"))
	o.b.wait(card("robot.imu") + `.includes("p99")`)
	valueOf[any](o.b, `document.querySelector('.grid button[title="robot.imu"]').click()`)
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

// observed is a mirror in several ways of looking at it.
type observed struct {
	t      *testing.T
	lab    *hosts.Lab
	seen   *lockedBuffer
	client *api.Client
	b      *browser
}

// ageSeen is the age in the window of a status that was made at that uptime of the daemon.
type ageSeen struct {
	by        string
	uptime    float64 // s
	mean, p99 float64 // ms
}

func (o *observed) compare() error {
	o.t.Helper()
	// What the daemon's uptime is on the monotonic clock: to half of the shortest answer.
	var s api.StatusReply
	began, within := 0.0, math.Inf(1)
	for range 20 {
		before := machineClock()
		if _, err := o.client.Get(context.Background(), "/v1/status", &s); err != nil {
			o.t.Fatal(err)
		}
		if after := machineClock(); after-before < within {
			began, within = (before+after)/2-s.UptimeS, after-before
		}
	}
	a := s.Mirrors[0].Age
	told := []ageSeen{{"status", s.UptimeS, a.Window.MeanMs, a.Window.P99Ms}, o.metrics(), o.page()}
	slot := s.UptimeS - a.Window.WindowS // windows begin a whole number of seconds from there
	sightings := o.sightings(began)
	var errs []error
	for _, f := range told {
		from := slot + math.Floor(f.uptime-10-slot)
		mean, p99 := ageOf(sightings, from, f.uptime)
		o.t.Logf("%s: mean %.3f, p99 %.3f ms; the reader: %.3f, %.3f ms (± %.3f)", f.by, f.mean, f.p99, mean, p99, a.UncertaintyMs)
		if most := 1 + a.UncertaintyMs; !(math.Abs(f.mean-mean) <= most && math.Abs(f.p99-p99) <= most) {
			errs = append(errs, fmt.Errorf("%s: mean %.3f, p99 %.3f ms, but a reader saw %.3f and %.3f: more than 1 ms + %.3f apart", f.by, f.mean, f.p99, mean, p99, a.UncertaintyMs))
		}
	}
	return errors.Join(errs...)
}

// scrape asks for the metrics as Prometheus does.
func (o *observed) scrape() string {
	o.t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, kind, address string) (net.Conn, error) {
		return dialInside(o.lab, "pc", address)
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("http://127.0.0.1:9476/metrics")
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return string(text)
}

func (o *observed) metrics() ageSeen {
	o.t.Helper()
	text := o.scrape()
	number := func(name string) float64 {
		found := regexp.MustCompile(`(?m)^achbridge_` + name + `(\{.*\})? (.*)$`).FindStringSubmatch(text)
		if found == nil {
			o.t.Fatalf("no %s in the metrics", name)
		}
		v, _ := strconv.ParseFloat(found[2], 64)
		return v
	}
	return ageSeen{"metrics", number("uptime_seconds"), 1000 * number("mean_age_seconds"), 1000 * number("p99_age_seconds")}
}

// page reads what the detail of the mirror shows.
func (o *observed) page() ageSeen {
	o.t.Helper()
	text := valueOf[string](o.b, `(t => [document.querySelector("#about").dataset.uptime, t[1].cells[1].innerText, t[3].cells[1].innerText].join(" "))(document.querySelector("dialog .ages").rows)`)
	f := ageSeen{by: "page"}
	if _, err := fmt.Sscanf(text, "%f %f ms %f ms", &f.uptime, &f.mean, &f.p99); err != nil {
		o.t.Fatalf("page: got %q: %v", text, err)
	}
	return f
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

// dialInside opens a TCP connection to an address of a host, from that host.
func dialInside(lab *hosts.Lab, host, address string) (net.Conn, error) {
	pid, err := lab.PID(host)
	if err != nil {
		return nil, err
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	var dialled sync.WaitGroup
	dialled.Go(func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if err = hosts.Enter(pid, "/"); err == nil {
			conn, err = net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(at))
		}
	})
	dialled.Wait()
	return conn, err
}

// enterScript is a program that becomes another one in the network of the pc.
func enterScript(t *testing.T, lab *hosts.Lab, program string) string {
	t.Helper()
	pid, err := lab.PID("pc")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "browser")
	script := fmt.Sprintf("#!/bin/sh\nexec nsenter --target %d --net %s \"$@\"\n", pid, program)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
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
