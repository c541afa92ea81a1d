package testnet_test

import (
	"flag"
	"strings"
	"testing"
	"time"

	"achbridge/testnet/need"
)

// These tests measure the ages of mirrors that are fed through a hub, with real programs on
// emulated hosts. They print the figures with the bars of docs/performance.md, but do not fail,
// since the machine may be busy.

const (
	settleHub  = 3 * time.Second // after the first frame, since a reader is not limited in its first second
	measureHub = 4 * time.Second
)

// printBar prints a figure and whether it meets its bar.
func printBar(t *testing.T, what string, got, bar float64) {
	t.Helper()
	met := "met"
	if got > bar {
		met = "NOT met"
	}
	t.Logf("%s: %.2f, bar %.2f: %s", what, got, bar, met)
}

// The long run measures only the first row. go test -run TestHubAges measures all.
func TestHubAges(t *testing.T) {
	need.Long(t)
	named := strings.Contains(flag.Lookup("test.run").Value.String(), "TestHubAges")
	for _, c := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"idle", ageOnAnIdlePath},
		{"thin", ageOverThinHops},
		{"camera", ageBesideACamera},
		{"slow", ageBesideASlowOperator},
	} {
		if c.name == "idle" || named {
			t.Run(c.name, c.run)
		}
	}
}

// ageOnAnIdlePath measures what the hub adds to a direct link.
func ageOnAnIdlePath(t *testing.T) {
	f := newFleet(t, "robot", "pc", "desk")
	f.link("", "rate=100mbit")
	f.meet("robot", "desk")
	f.publish("robot", "imu:1000:64", "state:200:1000")
	robot := f.join("robot")
	pc := f.join("pc", "--mirror", "robot/*")
	byHub := f.measure(settleHub, measureHub, map[string]*process{"hub": f.hub, "robot": robot, "pc": pc}, "pc:robot.imu", "pc:robot.state")
	pc.terminate()
	desk := f.run("desk", "--mirror", "robot/*")
	direct := f.measure(settleHub, measureHub, map[string]*process{"hub": f.hub, "robot": robot, "desk": desk}, "desk:robot.imu", "desk:robot.state")
	for _, channel := range []string{"robot.imu", "robot.state"} {
		t.Logf("%s by the hub: %v", channel, byHub.views["pc:"+channel])
		t.Logf("%s direct:     %v", channel, direct.views["desk:"+channel])
	}
	t.Logf("processor by the hub: %v; direct: %v", byHub.cpuTime, direct.cpuTime)
}

// thinRate is the rate of a thin link in bits per second.
const thinRate = 1e6

func ageOverThinHops(t *testing.T) {
	for hops, links := range map[int][]string{
		1: {"robot", "delay=10ms,rate=1mbit,queue=64KiB", "hub>robot", "delay=10ms"},
		2: {"", "delay=5ms", "robot", "rate=1mbit,queue=64KiB", "hub>pc", "rate=1mbit,queue=64KiB"},
	} {
		f := newFleet(t, "robot", "pc")
		for i := 0; i < len(links); i += 2 {
			f.link(links[i], links[i+1])
		}
		f.publish("robot", "imu:1000:1000")
		robot := f.join("robot")
		pc := f.join("pc", "--mirror", "robot/*")
		m := f.measure(settleHub, measureHub, map[string]*process{"hub": f.hub, "robot": robot, "pc": pc}, "pc:robot.imu")
		got := m.views["pc:robot.imu"]
		bytes := min(m.wire["robot>hub"], m.wire["hub>pc"]) / got.hz // not all frames that go up are fetched
		one := time.Duration(bytes * 8 / thinRate * 1e9)
		least := 10*time.Millisecond + time.Duration(hops)*one + one/2
		t.Logf("%d thin hops: %v; least %.1f ms, %.0f bytes a frame on the wire; processor %v", hops, got, inMs(least), bytes, m.cpuTime)
		printBar(t, "mean to the least", got.mean.Seconds()/least.Seconds(), map[int]float64{1: 1.2, 2: 1.25}[hops])
		printBar(t, "p99 to the least", got.p99.Seconds()/least.Seconds(), 2)
	}
}

func ageBesideACamera(t *testing.T) {
	for _, c := range []struct{ name, target string }{{"downlink", "hub>pc"}, {"uplink", "robot"}} {
		f := newFleet(t, "robot", "pc")
		f.link("", "delay=5ms")
		f.link(c.target, "rate=1mbit,queue=64KiB")
		f.publish("robot", "imu:1000:64")
		f.join("robot")
		f.join("pc", "--mirror", "robot/*")
		alone := f.measure(settleHub, measureHub, nil, "pc:robot.imu").views["pc:robot.imu"]
		f.publish("robot", "camera:10:50000")
		m := f.measure(settleHub, measureHub, nil, "pc:robot.imu", "pc:robot.camera")
		beside := m.views["pc:robot.imu"]
		t.Logf("thin %s: alone %v; beside the camera %v; camera %v", c.name, alone, beside, m.views["pc:robot.camera"])
		printBar(t, "beside to alone", beside.mean.Seconds()/alone.mean.Seconds(), 2)
	}
}

// ageBesideASlowOperator adds a second operator on 100 kbit/s that reads the same channels.
func ageBesideASlowOperator(t *testing.T) {
	f := newFleet(t, "robot", "pc", "far")
	f.link("", "delay=5ms,rate=20mbit")
	f.link("hub>far", "rate=100kbit,queue=64KiB")
	f.publish("robot", "imu:100:64", "state:100:1000", "camera:10:50000")
	channels := []string{"pc:robot.imu", "pc:robot.state", "pc:robot.camera"}
	f.join("robot")
	f.join("pc", "--mirror", "robot/*")
	alone := f.measure(3*settleHub, measureHub, nil, channels...) // the camera's rate grows by half a second
	f.join("far", "--mirror", "robot/*")
	f.measure(settleHub, time.Second, nil, "far:robot.imu")
	beside := f.measure(0, measureHub, nil, append(channels, "far:robot.imu")...)
	for _, name := range channels {
		t.Logf("%s alone: %v; beside: %v", name, alone.views[name], beside.views[name])
		printBar(t, name+" beside a slow operator to alone", beside.views[name].mean.Seconds()/alone.views[name].mean.Seconds(), 1.05)
	}
	t.Logf("the slow one: %v", beside.views["far:robot.imu"])
}
