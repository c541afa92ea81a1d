package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/daemon"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/top"
	"achbridge/cmd/achbridge/ui"
)

// problem describes the records of both daemons for two seconds of krang/imu, a channel of
// 100 Hz that a PC mirrors. The zero value describes a channel without problems.
type problem struct {
	what     string
	frames   ledger.FrameCounters // counters of the two seconds; the zero value means 200 frames, all delivered
	resting, // no frames were put
	silent, // the link is up, but the peer is silent
	unlinked bool // there is no link
	mirror       func(*status.Mirror)
	link         func(*status.Link) // changes the PC's link; the robot's link is derived from its Inbound
	peer         *status.Peer       // the robot as a peer without a link; nil means none
	around       diagnose.Surroundings
	originReason diagnose.Word       // the robot's reason not to offer the channel
	local        func(*status.Local) // changes the channel's status at the robot
	isNotOffered bool                // the robot does not offer the channel
	waitS        float64             // seconds waited for the lock of the mirror
	unread       string              // why the robot cannot read the channel
	waits        [2]float64          // share of the time in which the daemons of robot and PC wait for a CPU

	cause  status.Cause // wanted of why at the PC
	robot  status.Cause // wanted of why at the robot; empty means the same cause, "-" means that the robot cannot know it
	health status.Health
	over   bool // whether the mirror is over its budget
}

func pointer(v float64) *float64 { return &v }

func refusedFor(cause status.Cause, reason string) func(*status.Mirror) {
	return func(m *status.Mirror) { m.State, m.Cause, m.Reason = status.MirrorRefused, cause, reason }
}

func waitsFor(cause status.Cause, reason string) func(*status.Mirror) {
	return func(m *status.Mirror) {
		m.State, m.Cause, m.Reason, m.AgeMs, m.Age, m.PeriodMs, m.DueMs = status.MirrorWaiting, cause, reason, nil, nil, nil, nil
	}
}

// aged sets the current age and the p99 of the age of a mirror to ms.
func aged(ms float64) func(*status.Mirror) {
	return func(m *status.Mirror) {
		m.AgeMs, m.DueMs = &ms, pointer(max(0, ms-*m.PeriodMs))
		m.Age = &status.Age{Window: &status.AgeFigures{MeanMs: ms / 2, P99Ms: ms, OverBudget: 0.3}, Total: &status.AgeFigures{}}
	}
}

func and(list ...func(*status.Mirror)) func(*status.Mirror) {
	return func(m *status.Mirror) {
		for _, f := range list {
			f(m)
		}
	}
}

func full(mbit float64) func(*status.Link) {
	return func(l *status.Link) { l.Inbound.FullS, l.Inbound.PathMbit = 1.9, &mbit }
}

func peer(cause status.Cause, text string) *status.Peer {
	return &status.Peer{Host: "krang", Addrs: []string{"10.0.0.1:8076"}, State: status.PeerDialling, Error: text, Cause: cause}
}

var problems = []problem{
	{what: "well", cause: diagnose.Well, health: "live"},
	{what: "max_rate", frames: ledger.FrameCounters{Offered: 200, Delivered: 10, RateLimited: 190}, mirror: func(m *status.Mirror) { m.PeriodMs = pointer(200) }, cause: diagnose.Well, health: "live"},
	{what: "superseded on purpose", frames: ledger.FrameCounters{Offered: 200, Delivered: 190, Superseded: 10}, cause: diagnose.Well, health: "live"},
	{what: "rests as usual", resting: true, mirror: func(m *status.Mirror) {
		m.AgeMs, m.PeriodMs, m.DueMs = pointer(30_000), pointer(29_990), pointer(10)
	}, cause: diagnose.Well, health: "live"},
	{what: "publisher stopped", resting: true, mirror: aged(9000), cause: status.CausePublisherStopped, health: "late", over: true},
	{what: "publisher stopped, deadline", resting: true, mirror: and(aged(9000), func(m *status.Mirror) {
		m.State, m.QoS.Deadline, m.StaleS, m.Reason = status.MirrorStale, time.Second, 8, "no frame for 9 s, its deadline is 1 s"
	}), cause: status.CausePublisherStopped, health: "stale", over: true},
	{what: "publisher slow", mirror: func(m *status.Mirror) { m.QoS.Deadline = 5 * time.Millisecond }, cause: status.CausePublisherSlow, robot: "-", health: "live"},
	{what: "thin link", frames: ledger.FrameCounters{Offered: 200, Delivered: 40, Superseded: 160}, mirror: aged(900), link: full(0.05), cause: status.CauseLinkRate, health: "late", over: true},
	{what: "lossy link", frames: ledger.FrameCounters{Offered: 200, Delivered: 120, Lost: 80}, mirror: aged(300), link: func(l *status.Link) { l.Inbound.Lost = 80 }, cause: status.CauseLoss, health: "late", over: true},
	{what: "lossy link, in time at this moment", frames: ledger.FrameCounters{Offered: 200, Delivered: 120, Lost: 80}, mirror: and(aged(300), func(m *status.Mirror) {
		m.AgeMs, m.DueMs = pointer(12), pointer(2)
	}), link: func(l *status.Link) { l.Inbound.Lost = 80 }, cause: status.CauseLoss, health: "live", over: true},
	{what: "only late frames", frames: ledger.FrameCounters{Offered: 200, LateKept: 200}, mirror: and(aged(80), func(m *status.Mirror) {
		m.LateS, m.QoS.Budget, m.OneWayDelayMs = 5, 20*time.Millisecond, pointer(60)
	}), link: func(l *status.Link) { l.RTTms = 100 }, cause: status.CauseBudget, health: "late", over: true},
	{what: "some late frames", frames: ledger.FrameCounters{Offered: 200, Delivered: 150, LateKept: 50}, mirror: and(aged(90), func(m *status.Mirror) {
		m.QoS.Budget, m.OneWayDelayMs = 50*time.Millisecond, pointer(60)
	}), link: func(l *status.Link) { l.RTTms = 110 }, cause: status.CauseBudget, health: "late", over: true},
	{what: "busy processor", frames: ledger.FrameCounters{Offered: 200, Delivered: 100, LateKept: 100}, mirror: aged(400), cause: status.CauseHostBusy, health: "late", over: true},
	{what: "a robot's daemon that starves", frames: ledger.FrameCounters{Offered: 200, Delivered: 40, Superseded: 160}, mirror: aged(900), link: full(0.05), waits: [2]float64{0.95, 0.05}, cause: status.CauseHostBusy, health: "late", over: true},
	{what: "a PC's daemon that starves", frames: ledger.FrameCounters{Offered: 200, Delivered: 150, LateKept: 50}, mirror: and(aged(90), func(m *status.Mirror) {
		m.QoS.Budget, m.OneWayDelayMs = 50*time.Millisecond, pointer(60)
	}), link: func(l *status.Link) { l.RTTms = 110 }, waits: [2]float64{0.05, 0.95}, cause: status.CauseHostBusy, health: "late", over: true},
	{what: "a busy host, all in time", waits: [2]float64{0.95, 0.95}, cause: diagnose.Well, health: "live"},
	{what: "a thin link, busy hosts", frames: ledger.FrameCounters{Offered: 200, Delivered: 40, Superseded: 160}, mirror: aged(900), link: full(0.05), waits: [2]float64{0.25, 0.25}, cause: status.CauseLinkRate, health: "late", over: true},
	{what: "clock not known yet", mirror: func(m *status.Mirror) { m.AgeMs, m.Age, m.DueMs = nil, nil, nil }, cause: status.CauseClock, robot: "-", health: "live"},
	{what: "clock worse than the budget", mirror: func(m *status.Mirror) { m.QoS.Budget = 20 * time.Millisecond }, link: func(l *status.Link) { l.ClockUncertaintyMs = 40 }, cause: status.CauseClock, robot: "-", health: "live"},
	{what: "a reader sits on the lock", frames: ledger.FrameCounters{Offered: 200, Delivered: 60, Superseded: 140}, mirror: aged(700), waitS: 1.2, cause: status.CauseReceiverSlow, health: "late", over: true},
	{what: "another writes into it", mirror: func(m *status.Mirror) {
		m.State, m.Cause, m.Reason, m.Foreign = status.MirrorForeignWriter, status.CauseForeignWriter, "somebody else writes into it too", 50
	}, cause: status.CauseForeignWriter, robot: "-", health: "refused"},
	{what: "frames too large", frames: ledger.FrameCounters{Offered: 200, Refused: 200}, mirror: and(aged(9000), refusedFor(status.CauseFrameSize, "frames of 128 bytes are larger than its 64")), cause: status.CauseFrameSize, health: "refused", over: true},
	{what: "full /dev/shm", resting: true, mirror: and(refusedFor(status.CauseShmFull, "no space left on device")), cause: status.CauseShmFull, robot: "-", health: "refused"},
	{what: "mode of the file", resting: true, mirror: refusedFor(status.CauseFileMode, "permission denied"), cause: status.CauseFileMode, robot: "-", health: "refused"},
	{what: "damaged file", resting: true, mirror: refusedFor(status.CauseCorrupt, "not a channel"), cause: status.CauseCorrupt, robot: "-", health: "refused"},
	{what: "limit", resting: true, mirror: refusedFor(status.CauseLimit, "more than 1000 mirrors of krang"), cause: status.CauseLimit, robot: "-", health: "refused"},
	{what: "loop", resting: true, mirror: refusedFor(status.CauseLoop, "it comes from this host"), cause: status.CauseLoop, robot: "-", health: "refused"},
	{what: "export rule", isNotOffered: true, mirror: refusedFor(status.CauseExportRule, "krang refuses: it does not let pc read imu"),
		local: func(c *status.Local) {
			c.Exported, c.Cause, c.Reason = false, status.CauseExportRule, "no rule names it"
		}, cause: status.CauseExportRule, health: "refused"},
	{what: "no such channel", isNotOffered: true, mirror: waitsFor(status.CauseNoChannel, "krang does not offer it"), originReason: diagnose.Word{Cause: status.CauseNoChannel, Text: "there is no such channel"},
		local: func(c *status.Local) { c.Channel = "legs" }, cause: status.CauseNoChannel, health: "waiting"},
	{what: "silent link", silent: true, mirror: func(m *status.Mirror) {
		aged(4000)(m)
		m.State, m.Cause, m.Reason = status.MirrorWaiting, status.CausePeerSilent, "nothing is heard of krang"
	}, cause: status.CausePeerSilent, health: "waiting", over: true},
	{what: "dead robot", unlinked: true, peer: peer(status.CausePeerSilent, "no answer"), mirror: waitsFor(status.CausePeerMissing, "no link to krang"), cause: status.CausePeerSilent, robot: "-", health: "waiting"},
	{what: "never seen", unlinked: true, mirror: waitsFor(status.CausePeerMissing, "no link to krang"), around: diagnose.Surroundings{Discovery: true}, cause: status.CausePeerMissing, robot: "-", health: "waiting"},
	{what: "other key", unlinked: true, peer: peer(status.CauseKey, "wrong key"), mirror: waitsFor(status.CausePeerMissing, "no link to krang"), cause: status.CauseKey, robot: "-", health: "waiting"},
	{what: "revoked", unlinked: true, peer: peer(status.CauseRevoked, "revoked"), mirror: waitsFor(status.CausePeerMissing, "no link to krang"), cause: status.CauseRevoked, robot: "-", health: "waiting"},
	{what: "certificate ended", unlinked: true, peer: peer(status.CauseCertificate, "expired"), mirror: waitsFor(status.CausePeerMissing, "no link to krang"), cause: status.CauseCertificate, robot: "-", health: "waiting"},
	{what: "multicast blocked", unlinked: true, around: diagnose.Surroundings{Discovery: true, Answers: "10.0.0.1:8076"}, mirror: waitsFor(status.CausePeerMissing, "no link to krang"), cause: status.CauseMulticast, robot: "-", health: "waiting"},
	{what: "frames that cannot be sent", frames: ledger.FrameCounters{Offered: 200, Refused: 200}, mirror: and(aged(9000), func(m *status.Mirror) { m.OriginCause = status.CauseBadFrame }), unread: "a frame of 70 MiB", cause: status.CauseBadFrame, health: "late", over: true},
}

// ends returns the snapshots of the two daemons, the input of why.
func (x problem) ends() (pc, robot diagnose.Snapshot) {
	frames := x.frames
	if frames == (ledger.FrameCounters{}) && !x.resting && !x.unlinked && !x.isNotOffered {
		frames = ledger.FrameCounters{Offered: 200, Delivered: 200}
	}
	was := ledger.FrameCounters{Offered: 5800, Delivered: 5800}
	now := was
	for _, add := range []struct{ to, of *uint64 }{
		{&now.Offered, &frames.Offered}, {&now.Delivered, &frames.Delivered}, {&now.LateKept, &frames.LateKept}, {&now.Superseded, &frames.Superseded},
		{&now.RateLimited, &frames.RateLimited}, {&now.Lost, &frames.Lost}, {&now.Refused, &frames.Refused},
	} {
		*add.to += *add.of
	}
	m := status.Mirror{
		Host: "krang", Channel: "imu", Name: "krang.imu", State: status.MirrorLive, Seq: 5800, Bytes: 64, OneWayDelayMs: pointer(6), FrameCounters: was,
		AgeMs: pointer(12), PeriodMs: pointer(10), DueMs: pointer(2), QoS: rule.QoS{Budget: rule.DefaultBudget},
		Age: &status.Age{Window: &status.AgeFigures{MeanMs: 11, P99Ms: 17}, Total: &status.AgeFigures{}},
	}
	link := status.Link{Peer: "krang", Addr: "10.0.0.1:8076", Transport: "quic", State: status.LinkUp, UpS: 58, RTTms: 10, ClockUncertaintyMs: 5, Inbound: &status.InboundPath{AtS: 58}}
	pc = diagnose.Snapshot{Host: "krang", Channel: "imu", Apart: 2 * time.Second, Around: x.around, OriginReason: x.originReason, Age: m.Age.Window}
	pc.Rules = []config.Judgement{{Kind: "mirror", Applies: true}}
	pc.Before = status.Report{Host: "pc", Links: []status.Link{link}, Mirrors: []status.Mirror{m}}
	m.FrameCounters, m.LockWaitS = now, x.waitS
	m.Seq += frames.Offered
	if x.mirror != nil {
		x.mirror(&m)
	}
	link.UpS, link.Received, link.ReceivedBytes = 60, 200, 20_000
	link.Inbound = &status.InboundPath{AtS: 60, Sent: 200}
	if x.link != nil {
		x.link(&link)
	}
	link.Inbound.CPUWait = &x.waits[0]
	if x.silent {
		link.State, link.SilentS = status.LinkSilent, 3
	}
	pc.After = status.Report{Host: "pc", CPUWait: &x.waits[1], Links: []status.Link{link}, Mirrors: []status.Mirror{m}}
	if !x.isNotOffered {
		pc.Offers = []string{"imu"}
	}
	if x.unlinked {
		pc.After.Links, pc.Offers = nil, nil
	}
	if x.peer != nil {
		pc.After.Peers = []status.Peer{*x.peer}
	}
	if m.Age != nil {
		pc.Age = m.Age.Window
	}
	return pc, x.origin(m, was, link)
}

// origin returns the robot's snapshot for the PC's mirror m, over the same link.
func (x problem) origin(m status.Mirror, was ledger.FrameCounters, link status.Link) diagnose.Snapshot {
	r := diagnose.Snapshot{Host: "krang", Channel: "imu", Self: true, Apart: 2 * time.Second}
	c := status.Local{Channel: "imu", Seq: 5800, Exported: true}
	r.Before.Locals = []status.Local{c}
	c.Seq = m.Seq
	if x.local != nil {
		x.local(&c)
	}
	in := link.Inbound
	back := status.Link{Peer: "pc", State: link.State, SilentS: link.SilentS, RTTms: link.RTTms, PathMbit: in.PathMbit, ClockUncertaintyMs: link.ClockUncertaintyMs}
	r.Before.Links = []status.Link{back}
	back.FullS, back.Sent, back.Lost, back.SentBytes = in.FullS, in.Sent, in.Lost, 20_000
	back.Inbound = &status.InboundPath{CPUWait: &x.waits[1]}
	r.After = status.Report{Host: "krang", CPUWait: in.CPUWait, Links: []status.Link{back}, Locals: []status.Local{c}}
	e := status.Subscription{Channel: "imu", Peer: "pc", QoS: m.QoS, Bytes: m.Bytes, OneWayDelayMs: m.OneWayDelayMs, PeriodMs: m.PeriodMs, AgeMs: m.AgeMs, FrameCounters: was}
	r.Before.Exports = []status.Subscription{e}
	e.FrameCounters, e.ReaderWaitS = m.FrameCounters, x.waitS
	if x.resting {
		e.DueMs = m.DueMs
	}
	if m.State == status.MirrorRefused {
		e.ReaderCause = m.Cause
	}
	if m.LateS > 0 {
		e.ReaderCause = status.CauseBudget
	}
	if x.unread != "" {
		e.Reason, e.Cause = x.unread, m.OriginCause
	}
	if !x.isNotOffered && !x.unlinked {
		r.After.Exports = []status.Subscription{e}
	}
	return r
}

// figures returns the gauges that /metrics exports for a status, by name without the prefix achbridge_,
// and the health label of its mirror.
func figures(t *testing.T, s status.Report) (values map[string]float64, health string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(daemon.Metrics(s))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values = map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			values[strings.TrimPrefix(f.GetName(), "achbridge_")] = m.GetGauge().GetValue()
			for _, l := range m.GetLabel() {
				if l.GetName() == "health" {
					health = l.GetValue()
				}
			}
		}
	}
	return values, health
}

// TestAllToolsAgreeOnEveryProblem compares the output of each tool for recorded states: the
// cause, the health, and whether the mirror is over its budget.
func TestAllToolsAgreeOnEveryProblem(t *testing.T) {
	if len(problems) < 30 {
		t.Errorf("got %d problems, want at least 30", len(problems))
	}
	a := &app{ui: &ui.Terminal{}}
	for _, x := range problems {
		pc, robot := x.ends()
		m := pc.After.Mirrors[0]
		differs := func(by string, got, want any) {
			t.Helper()
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %s: got %v, want %v", x.what, by, got, want)
			}
		}
		differs("why", diagnose.Findings(pc)[0].Cause, x.cause)
		whole := diagnose.Host{Before: pc.Before, After: pc.After, Apart: pc.Apart}
		if x.unlinked {
			whole.Around = map[string]diagnose.Surroundings{"krang": x.around}
		}
		all := append(diagnose.Problems(whole), diagnose.Problem{Finding: diagnose.Finding{Cause: diagnose.Well}})
		differs("why without a channel", all[0].Cause, x.cause)
		switch x.robot {
		case "":
			differs("why at the other end", diagnose.Findings(robot)[0].Cause, x.cause)
		case "-":
		default:
			differs("why at the other end", diagnose.Findings(robot)[0].Cause, x.robot)
		}
		differs("health of why", diagnose.HealthOf(pc), x.health)
		row := a.mirrorRows(pc.After.Mirrors)[0]
		differs("status", row[2], x.health)
		s := api.StatusReply{Report: pc.After}
		health, used := top.Shown(s, m.Name)
		differs("top", health, x.health)
		differs("top, over budget", used > 1, x.over)
		differs("status, over budget", diagnose.UsedOf(m) > 1, x.over)
		if x.over && row[8] == "" {
			t.Errorf("%s: status has no note", x.what)
		}
		values, health := figures(t, pc.After)
		differs("the metrics", health, x.health)
		differs("the metrics, over budget", overBy(values), x.over)
		differs("the metrics, waiting for a processor", values["processor_wait_ratio"], x.waits[1])
		differs("status, waiting for a processor", cpuWaitText(pc.After) != "", x.waits[1] > 0.5)
	}
}

// overBy reports whether the metrics show that a mirror is over its budget.
func overBy(v map[string]float64) bool {
	if _, known := v["age_now_seconds"]; !known || v["period_seconds"] == 0 {
		return false
	}
	return math.Max(v["age_now_seconds"], v["p99_age_seconds"])-v["period_seconds"] > v["budget_seconds"]
}

// tryProblems compares the page with the results wanted of the other tools.
func tryProblems(t *testing.T, b *browser) {
	for _, x := range problems {
		pc, _ := x.ends()
		text, err := json.Marshal(pc.After.Mirrors[0])
		if err != nil {
			t.Fatal(err)
		}
		got := valueOf[string](b, fmt.Sprintf(`(() => { const m = %s; return m.health + " " + (parts.used(m) > 1); })()`, text))
		if want := fmt.Sprintf("%s %v", x.health, x.over); got != want {
			t.Errorf("%s: page: got %s, want %s", x.what, got, want)
		}
	}
}

// The output of status fits into each tested width, and no cell is truncated.
func TestStatusFitsAnyWidthForEveryProblem(t *testing.T) {
	var list []status.Mirror
	for i, x := range problems {
		pc, _ := x.ends()
		m := pc.After.Mirrors[0]
		m.Channel = fmt.Sprintf("arm-%02d", i)
		m.Name = "krang." + m.Channel
		if share, ok := m.LostRatio(); ok {
			m.LostShare = &share
		}
		list = append(list, m)
	}
	statusGoldens(t, "status", true, api.StatusReply{Report: status.Report{Host: "pc", Mirrors: list}})
}

// statusGoldens compares the output of status on terminals of three widths with golden files.
func statusGoldens(t *testing.T, name string, verbose bool, s api.StatusReply) {
	t.Helper()
	for _, width := range []int{80, 100, 140} {
		var out bytes.Buffer
		a := &app{ui: &ui.Terminal{Out: &out, Width: width}}
		if err := a.statusWriter(verbose)(s); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("got %d columns on a terminal of %d: %s", n, width, line)
			}
		}
		golden(t, fmt.Sprintf("testdata/%s_%d.golden", name, width), out.Bytes())
	}
}

// On a terminal, why prints the cause first, and evidence and fix on separate lines. Elsewhere a
// problem is one line.
func TestWhyBreaksLongLinesOnlyOnTerminal(t *testing.T) {
	r := api.ProblemsReport{Problems: []diagnose.Problem{{Finding: diagnose.Finding{
		Cause: status.CauseLinkRate, Text: "link from krang carries 1.1 of the 6.2 Mbit/s that 23 mirrors need: camera takes 84 %",
		Evidence: []string{"measured when it was full: 1.1 Mbit/s", "krang.camera: p99 of its age is 900 ms and its budget 100 ms, so its frames come late most of the time"},
		Fix:      "mirror less, or smaller frames",
	}}}}
	const wide = "link_rate: link from krang carries 1.1 of the 6.2 Mbit/s that 23 mirrors need: camera takes 84 %; " +
		"measured when it was full: 1.1 Mbit/s; krang.camera: p99 of its age is 900 ms and its budget 100 ms, so its frames come late most of the time. " +
		"Fix: mirror less, or smaller frames\n"
	const narrow = `link_rate: link from krang carries 1.1 of the 6.2 Mbit/s that
  23 mirrors need: camera takes 84 %
  measured when it was full: 1.1 Mbit/s
  krang.camera: p99 of its age is 900 ms and its budget
  100 ms, so its frames come late most of the time
  fix: mirror less, or smaller frames
`
	for width, want := range map[int]string{0: wide, 61: narrow} {
		var out bytes.Buffer
		a := &app{ui: &ui.Terminal{Out: &out, Width: width}}
		if err := a.showProblems(r); err != nil || out.String() != want {
			t.Errorf("terminal of %d columns: %v, got\n%s\nwant\n%s", width, err, out.String(), want)
		}
	}
}
