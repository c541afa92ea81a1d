package main

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
)

func TestMain(m *testing.M) {
	hosts.Main()
	os.Exit(await.Main(m))
}

func TestParseLoad(t *testing.T) {
	list, err := parseLoad("imu:1000:64,joint:200:3000*2")
	if err != nil || len(list) != 2 || list[1].Count != 2 {
		t.Fatalf("got %v, %v", list, err)
	}
	if got := list[1].channels(); len(got) != 2 || got[1] != "joint1" {
		t.Errorf("channels: got %v", got)
	}
	for _, bad := range []string{"", "imu", "imu:x:64", "imu:100:8", "imu:0:64", "im/u:1:64", "imu:1:64*0", "imu:1:64*x"} {
		if _, err := parseLoad(bad); err == nil || !strings.Contains(err.Error(), `"`+bad+`"`) {
			t.Errorf("load %q: got %v, want an error that names it", bad, err)
		}
	}
}

// A frame every 10 ms takes 2 ms, and one frame is lost: the age rises from 2 to 12 ms, and
// once to 22 ms.
func TestLossRaisesMeanAgeAndDuplicatesDoNot(t *testing.T) {
	const ms = time.Millisecond
	var frames []frame
	for n := range uint64(100) {
		if put := time.Duration(n) * 10 * ms; n != 50 {
			frames = append(frames, frame{0, n + 1, put, put + 2*ms})
		}
	}
	late := frames[20]
	late.got += 55 * ms // a second copy does not change the age
	frames = append(frames[:26:26], append([]frame{late}, frames[26:]...)...)
	got := summarize(load("imu:100:64"), frames, 102*ms, 902*ms)[0]
	if want := (79*7.0 + 12 + 17 - 12) / 80; got.Age < want-0.01 || got.Age > want+0.2 {
		t.Errorf("mean age: got %v ms, want about %v", got.Age, want)
	}
	if got.DelayP50 != 2 || got.DelayMax != 57 {
		t.Errorf("delays: got %v and at most %v ms, want 2 and 57", got.DelayP50, got.DelayMax)
	}
	if got.Frames != 80 || got.Lost < 0.012 || got.Lost > 0.013 {
		t.Errorf("got %d frames, %v lost; want 80 and 1 of 81", got.Frames, got.Lost)
	}
}

func TestParseReportsUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"":                   "nothing to carry",
		"nowhere":            `"nowhere"`,
		"--tools ros lan-1k": `"ros"`,
		"--repeat 0 lan-1k":  "--repeat",
		"--link rate=x":      "rate",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s in it", args, err, want)
		}
	}
}

func TestParseMakesScenarioForEachLink(t *testing.T) {
	opts, err := parse(strings.Fields("--load imu:200:64 --link wifi=busy --link rate=1mbit --mirror budget=2s"), io.Discard)
	if err != nil || len(opts.scenarios) != 2 {
		t.Fatalf("got %v, %v; want two scenarios", opts.scenarios, err)
	}
	for i, want := range []string{"wifi=busy", "rate=1mbit"} {
		if got := opts.scenarios[i]; got.link != want || got.options != "budget=2s" || len(got.load) != 1 {
			t.Errorf("got %+v, want the link %s, the options and the load", got, want)
		}
	}
}

// A tool must gain nothing from compression.
func TestFramesDoNotCompress(t *testing.T) {
	p, err := build(func(p programs) [][]string { return [][]string{p.compile("ends")} })
	if err != nil {
		t.Fatal(err)
	}
	defer p.remove()
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	writer := exec.Command(p.path("ends"), "write", "udp:"+socket.LocalAddr().String(), "100", "1000")
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	defer writer.Wait()
	defer writer.Process.Kill()
	frame := make([]byte, 2000)
	socket.SetReadDeadline(await.Deadline())
	n, _, err := socket.ReadFrom(frame)
	if err != nil || n != 1000 {
		t.Fatalf("got %d bytes, %v; want a frame of 1000", n, err)
	}
	var compressed bytes.Buffer
	w, _ := flate.NewWriter(&compressed, flate.BestCompression)
	w.Write(frame[:n])
	w.Close()
	if compressed.Len() < 950 {
		t.Errorf("got a frame of 1000 bytes that is %d when compressed, want no gain", compressed.Len())
	}
}

// The test checks only that all tools carry frames between emulated hosts, since their
// figures depend on the machine.
func TestEveryToolCarriesFrames(t *testing.T) {
	need.Long(t)
	hosts.StartTest(t, hosts.Config{Hosts: []string{"try"}}).Close()
	var out, log bytes.Buffer
	if err := run([]string{"--for", "1s", "--json", "--load", "imu:200:64,scan:20:20000*2", "--link", "delay=2ms"}, &out, &log); err != nil {
		t.Fatal(err)
	}
	var results []result
	if err := json.Unmarshal(out.Bytes(), &results); err != nil {
		t.Fatal(err)
	}
	if len(results) != len(tools) {
		t.Fatalf("got %d results, want one of each of %d tools", len(results), len(tools))
	}
	for i, r := range results {
		t.Run(r.Tool, func(t *testing.T) {
			if missing := tools[i].missing(); missing != nil {
				t.Skipf("needs Debian's %s, to compare with", strings.Join(missing, " "))
			}
			if r.Err != "" {
				t.Fatal(r.Err)
			}
			for _, g := range r.Groups {
				if g.Frames < 10 || g.Age < 2 {
					t.Errorf("%s: got %d frames of age %v ms, want at least 10, and 2 ms as the link has", g.Load, g.Frames, g.Age)
				}
			}
		})
	}
}
