package bridge

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet"
	"achbridge/testnet/need"
)

// eventTexts returns the texts of the host's events of a kind.
func (h *host) eventTexts(kind status.EventKind) (texts []string) {
	h.w.t.Helper()
	list, err := h.node.Events(context.Background(), 0)
	if err != nil {
		h.w.t.Fatal(err)
	}
	for _, e := range list.Events {
		if e.Kind == kind {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// hubSiege is a robot whose channels pc reads through a dishonest hub, and near over a link.
type hubSiege struct {
	*world
	hub             *worldHub
	robot, pc, near *host
	imu             *channel
	put             uint64 // number of frames put into imu
	last            uint64 // newest frame that was read at pc
}

func (w *world) hubSiege(qos rule.QoS) *hubSiege {
	s := &hubSiege{world: w, hub: newWorldHub(w, hubMaxFrame), robot: w.host("robot", wire10ms), pc: w.host("pc", wire10ms), near: w.host("near", wire10ms)}
	w.host("spy", wire10ms).atHub(s.hub, Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "gps"}}}, "robot")
	s.robot.atHub(s.hub, Config{})
	s.pc.atHub(s.hub, Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu", QoS: qos}}}, "robot", "spy")
	s.near.run(mirrorAll(rule.QoS{}))
	s.near.knows(nil, s.robot)
	s.imu = s.robot.channel("imu", 16, 64)
	s.robot.channel("gps", 16, 64).streams(64)
	return s
}

// streams puts 100 frames a second and returns the mean ages at pc and near in ms. It fails if
// pc's mirror goes back, or has a frame that was never put or is incomplete.
func (s *hubSiege) streams(long time.Duration) (pc, near float64) {
	s.t.Helper()
	samples := 0.0
	for end := time.Now().Add(long); time.Now().Before(end); samples++ {
		s.put++
		s.imu.put(s.put, 64)
		time.Sleep(9 * time.Millisecond) // between the arrivals of frames, whose order at the same instant would be chance
		number, age := s.pc.newest("robot.imu")
		if number < s.last || number > s.put {
			s.t.Fatalf("pc has frame %d after %d; %d were put", number, s.last, s.put)
		}
		s.last = number
		_, beside := s.near.newest("robot.imu")
		pc, near = pc+float64(age)/1e6, near+float64(beside)/1e6
		time.Sleep(time.Millisecond)
	}
	return pc / samples, near / samples
}

func TestHostileHubDoesLimitedHarm(t *testing.T) {
	for _, c := range []struct {
		testnet.Deceit
		kind status.EventKind // kind of the event that reports the attack
		text string           // part of that event's text
	}{
		{testnet.Deceit{Frames: testnet.Replays}, status.EventForged, "came again"},
		{testnet.Deceit{Frames: testnet.Doubles}, status.EventForged, "came again"},
		{testnet.Deceit{Frames: testnet.Reorders}, status.EventForged, "came again, or after a later one"},
		{testnet.Deceit{Frames: testnet.Forges}, status.EventForged, "was not sealed by robot"},
		{testnet.Deceit{Frames: testnet.Impersonates}, status.EventForged, "was not sealed by robot"},
		{testnet.Deceit{Frames: testnet.Withholds}, "", ""}, // only the age shows it
		{testnet.Deceit{Frames: testnet.Delays, By: 700 * time.Millisecond}, "", ""},
		{testnet.Deceit{Streams: testnet.Replays}, status.EventLinkDown, ""},
		{testnet.Deceit{Streams: testnet.Doubles}, status.EventLinkDown, ""},
		{testnet.Deceit{Streams: testnet.Reorders}, status.EventLinkDown, ""},
		{testnet.Deceit{Streams: testnet.Forges}, status.EventLinkDown, ""},
		{testnet.Deceit{Streams: testnet.Withholds}, status.EventLinkDown, ""},
		{testnet.Deceit{Streams: testnet.Impersonates}, status.EventPeerUnreachable, "the hub leads to another host: spy"},
		{testnet.Deceit{Frames: testnet.Replays, Streams: testnet.Delays, By: 2500 * time.Millisecond}, status.EventForged, ""},
	} {
		everyDay := c.Frames == testnet.Reorders || c.Frames == testnet.Forges || c.Streams == testnet.Impersonates
		t.Run(fmt.Sprintf("frames %v, streams %v", c.Frames, c.Streams), func(t *testing.T) {
			if !everyDay && !need.IsLong() {
				t.Skip("long: set ACHBRIDGE_LONG=1")
			}
			inLoneWorld(t, func(w *world) { w.hubSiege(rule.QoS{}).withstands(c.Deceit, c.kind, c.text) })
		})
	}
}

func (s *hubSiege) withstands(d testnet.Deceit, kind status.EventKind, text string) {
	s.t.Helper()
	s.streams(3 * time.Second)
	pcBefore, nearBefore := s.streams(2 * time.Second)
	if pcBefore > 40 {
		s.t.Fatalf("before: age %.1f ms", pcBefore)
	}
	held, running, known := heap(), runtime.NumGoroutine(), len(s.pc.eventTexts(kind))
	s.hub.Deceive(d)
	if d.Streams == testnet.Impersonates { // affects only new streams
		s.hub.Cut("pc")
		s.hub.Restore("pc")
	}
	pc, near := s.streams(4 * time.Second)
	texts := s.pc.eventTexts(kind)[known:]
	s.t.Logf("age %.1f ms before and %.1f under attack, beside it %.1f and %.1f; told: %q", pcBefore, pc, nearBefore, near, texts)
	if near > 1.2*nearBefore {
		s.t.Errorf("the mirror beside it: age %.1f ms, %.1f before", near, nearBefore)
	}
	if kind != "" && !strings.Contains(strings.Join(texts, "\n"), text) || kind != "" && len(texts) == 0 {
		s.t.Errorf("got events %q, want one with %q", texts, text)
	}
	if len(texts) > 40 {
		s.t.Errorf("got %d events in 4 s", len(texts))
	}
	if age := s.pc.mirror("robot.imu").AgeMs; kind == "" && (age == nil || *age < 600) {
		s.t.Errorf("the status does not show the age: %v", age)
	}
	s.hub.Deceive(testnet.Deceit{})
	s.streams(10 * time.Second) // the rate of puts grows by half each second
	if pc, _ := s.streams(time.Second); pc > 1.1*pcBefore {
		s.t.Errorf("afterwards: age %.1f ms, %.1f before", pc, pcBefore)
	}
	if more := heap() - held; more > 4<<20 {
		s.t.Errorf("%d KiB more are held", more>>10)
	}
	if now := runtime.NumGoroutine(); now > running+8 {
		s.t.Errorf("%d goroutines, %d before", now, running)
	}
	time.Sleep(3 * time.Second)
	if a := s.pc.mirror("robot.imu").FrameCounters; a.Offered != a.Settled()+a.InFlight {
		s.t.Errorf("the counters do not add up: %+v", a)
	}
}

// A command is put within its budget or never, whatever the hub does.
func TestHostileHubCannotMakeCommandsLate(t *testing.T) {
	for _, d := range []testnet.Deceit{
		{Frames: testnet.Replays},
		{Frames: testnet.Reorders},
		{Frames: testnet.Delays, By: 150 * time.Millisecond},
		{Frames: testnet.Delays, By: time.Second},
		{Streams: testnet.Delays, By: 300 * time.Millisecond},
		{Frames: testnet.Delays, Streams: testnet.Delays, By: 1500 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("frames %v, streams %v, by %v", d.Frames, d.Streams, d.By), func(t *testing.T) {
			inWorld(t, func(w *world) {
				hub, pc, mirrors := w.hubClasses()
				goals := mirrors[slices.IndexFunc(mirrors, func(m *lookout) bool { return m.name == "robot.goal" })]
				pc.watchMirrors(2*time.Second, goals)
				if goals.late > 0 || goals.last == 0 {
					t.Fatalf("before: frame %d, %d late ones", goals.last, goals.late)
				}
				hub.Deceive(d)
				pc.watchMirrors(5*time.Second, goals)
				hub.Deceive(testnet.Deceit{})
				pc.watchMirrors(4*time.Second, goals)
				if goals.late > 0 {
					t.Errorf("%d commands past their budget were put", goals.late)
				}
				pc.freshWithin(time.Second, goals.name)
			})
		})
	}
}
