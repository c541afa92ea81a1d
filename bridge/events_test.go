package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// events returns the node's events of one kind; "" means any kind.
func (h *host) events(kind status.EventKind) []status.Event {
	h.w.t.Helper()
	l, err := h.node.Events(ended(), 0)
	if err != nil {
		h.w.t.Fatal(err)
	}
	return slices.DeleteFunc(l.Events, func(e status.Event) bool { return kind != "" && e.Kind != kind })
}

// ended returns a context that has ended already.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestEventsOfLinkAndMirror(t *testing.T) {
	inFlow(t, "delay=5ms", rule.QoS{Deadline: 200 * milli}, 64, func(f *flow) {
		f.stream(50*milli, time.Second, func(time.Duration) {})
		f.change("cut")
		f.stream(50*milli, 2*time.Second, func(time.Duration) {})
		f.change("up")
		f.stream(50*milli, 3*time.Second, func(time.Duration) {})
		f.change("cut")
		f.stream(50*milli, 15*time.Second, func(time.Duration) {})
		var got []string
		for _, e := range f.pc.events("") {
			got = append(got, string(e.Kind))
			if e.Host != "robot" || e.Text == "" || e.Kind == status.EventMirrorStale && (e.Mirror != flowName || e.Channel != "data") {
				t.Errorf("event %+v does not name what it is about", e)
			}
		}
		want := "link_up mirror_stale link_silent link_heard mirror_fresh mirror_stale link_silent link_down peer_unreachable"
		if strings.Join(got, " ") != want {
			t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
		}
	})
}

func TestRepeatedSilenceEventsAreRateLimited(t *testing.T) {
	inFlow(t, "delay=5ms", rule.QoS{}, 64, func(f *flow) {
		silences := 0
		for range 40 {
			f.change("cut")
			f.stream(20*milli, 800*milli, func(time.Duration) {})
			if f.robot.link().State == status.LinkSilent {
				silences++
			}
			f.change("up")
			f.stream(20*milli, 700*milli, func(time.Duration) {})
		}
		f.stream(20*milli, 15*time.Second, func(time.Duration) {})
		f.change("cut")
		f.stream(20*milli, 800*milli, func(time.Duration) {})
		silent, heard, sum := f.robot.events(status.EventLinkSilent), f.robot.events(status.EventLinkReceives), 0
		for _, e := range silent {
			sum += max(1, e.Count)
		}
		if silences < 30 || sum != silences+1 || len(silent) > 4+7+1 || len(heard) != len(silent)-1 {
			t.Errorf("of %d silences in a minute, %d are counted by %d events, with %d events of an end; want all counted by few events", silences+1, sum, len(silent), len(heard))
		}
	})
}

func TestEventFollowerIsWokenAndNeverBlocksNode(t *testing.T) {
	inWorld(t, func(w *world) {
		pc := w.host("pc", wire10ms).run(Config{})
		notify := func(i int) {
			pc.node.LogEvent(slog.LevelInfo, "something", status.Event{Kind: status.EventRefused, Text: fmt.Sprint(i)})
		}
		go func() {
			time.Sleep(time.Second)
			notify(1)
		}()
		began := time.Now()
		l, err := pc.node.Events(context.Background(), 0)
		if waited := time.Since(began); err != nil || len(l.Events) != 1 || l.Events[0].Seq != 1 || waited != time.Second {
			t.Fatalf("got %+v, %v after %v, want the first event after 1 s", l, err, waited)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if l, err := pc.node.Events(ctx, 1); err != nil || len(l.Events) != 0 || time.Since(began) != 61*time.Second {
			t.Errorf("got %+v, %v after %v, want nothing until its time is over", l, err, time.Since(began))
		}
		for i := range 1000 { // no follower reads, and no time passes
			notify(i + 2)
		}
		if time.Since(began) != 61*time.Second {
			t.Error("the node waited for a follower")
		}
		l, err = pc.node.Events(ended(), 101)
		if err != nil || l.Missed != 1001-101-status.KeptEvents || len(l.Events) != status.KeptEvents || l.Events[0].Text != fmt.Sprint(1001-status.KeptEvents+1) || l.Events[status.KeptEvents-1].Seq != 1001 {
			t.Errorf("got %d events after %d that are missed, %v, want the newest %d", len(l.Events), l.Missed, err, status.KeptEvents)
		}
		if l, _ := pc.node.Events(ended(), 5000); len(l.Events) != status.KeptEvents {
			t.Errorf("after a number of another incarnation: got %d events, want all", len(l.Events))
		}
		pc.stop()
		if _, err := pc.node.Events(context.Background(), 1001); err == nil {
			t.Error("Events of an ended node returned no error, want one")
		}
	})
}

func TestRefusalsAreEventsOnBothSides(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		robot.channel("imu", 4, 64)
		pc.channel("goal", 4, 64)
		robot.run(Config{Export: rule.Grants{{Channels: []string{"*"}, Hosts: []string{"base"}, From: "export[0]"}}})
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu"}}, Pushes: []rule.Push{{Channel: "goal", Host: "robot"}}}, robot)
		w.within(5*time.Second, "refusals", func() bool {
			return len(pc.events(status.EventRefused)) == 2 && len(robot.events(status.EventRefused)) == 2
		})
		for _, e := range append(pc.events(status.EventRefused), robot.events(status.EventRefused)...) {
			named := e.Channel == "imu" && strings.Contains(e.Text, "export[0] does not name the host pc") ||
				e.Channel == "goal" && strings.Contains(e.Text, "no rule names it")
			if !named {
				t.Errorf("event %+v does not say what was refused, and why", e)
			}
		}
	})
}

func TestWallClockStepIsDetected(t *testing.T) {
	var w wallClock
	for i, look := range []struct{ wall, mono, want time.Duration }{
		{1000 * time.Hour, 0, 0},
		{1000*time.Hour + 250*milli, 250 * milli, 0},
		{1000*time.Hour + 501*milli, 500 * milli, 0}, // the clock is slewed
		{1001*time.Hour + 751*milli, 750 * milli, time.Hour},
		{1001*time.Hour + 1001*milli, time.Second, 0},
		{999 * time.Hour, 1250 * milli, -2*time.Hour - 1251*milli},
	} {
		if got := w.step(func() (wall, mono time.Duration) { return look.wall, look.mono }); got != look.want {
			t.Errorf("look %d: got a step of %v, want %v", i, got, look.want)
		}
	}
}

func TestDelayBetweenClockReadsIsNoStep(t *testing.T) {
	var w wallClock
	readings := [][2]time.Duration{{0, 0}, {250 * milli, 850 * milli}, {851 * milli, 851 * milli}, {1100 * milli, 1100 * milli}}
	for i := 0; len(readings) > 0; i++ {
		step := w.step(func() (wall, mono time.Duration) {
			wall, mono, readings = readings[0][0], readings[0][1], readings[1:]
			return wall, mono
		})
		if step != 0 {
			t.Errorf("look %d: got a step of %v, and time has passed between the two clocks", i, step)
		}
	}
}
