package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

// busy returns the status of a host with a bad link.
func busy() api.StatusReply {
	age := 12.3
	frames := ledger.FrameCounters{
		Offered: 3_600_000, Delivered: 3_512_345, LateKept: 2, Superseded: 87_630, Expired: 2, Late: 3, InFlight: 18,
	}
	return api.StatusReply{Report: status.Report{
		UptimeS: 3600,
		Links:   []status.Link{{Peer: "krang", State: "silent", Addr: "192.168.1.20:8076", Transport: "quic", DSCP: "CS6", RTTms: 20.1, UpS: 3600}},
		Mirrors: []status.Mirror{
			{
				Host: "krang", Channel: "imu", Name: "krang.imu", State: "live", Seq: 3_600_000, AgeMs: &age,
				Age: &status.Age{Window: &status.AgeFigures{MeanMs: 10.52, P99Ms: 1234.5}},
				QoS: rule.QoS{Budget: 20 * time.Millisecond, Priority: 8}, FrameCounters: frames, LostShare: pointer(5 / 3.6e6),
			},
			{
				Host: "krang", Channel: "legs", Name: "krang.legs", State: "live", Seq: 5,
				QoS: rule.QoS{Budget: rule.DefaultBudget}, FrameCounters: ledger.FrameCounters{Offered: 5, Delivered: 5},
			},
		},
		Exports: []status.Subscription{{Channel: "goal", Peer: "krang", Seq: 3_600_000, QoS: rule.QoS{MaxRate: 500_000}, FrameCounters: frames},
			{Channel: "log", Peer: "krang", QoS: rule.QoS{Mode: rule.Every}, FrameCounters: ledger.FrameCounters{Offered: 7, Delivered: 7}}},
	}}
}

func TestStatusShowsRefusedMarks(t *testing.T) {
	for _, verbose := range []bool{false, true} {
		s := busy()
		s.NoDSCP = "sendmsg: operation not permitted"
		var out bytes.Buffer
		if err := (&app{ui: &ui.Terminal{Out: &out}}).statusWriter(verbose)(s); err != nil {
			t.Fatal(err)
		}
		if want := "packets are not marked, the kernel refuses: sendmsg: operation not permitted\n"; !strings.Contains(out.String(), want) {
			t.Errorf("verbose %t: no %q in\n%s", verbose, want, out.String())
		}
	}
}

func TestStatusShowsNumberOfOmittedChannels(t *testing.T) {
	s := busy().Report
	s.Links[0].LeftOut = 17
	if rows := peerRows(s); !strings.Contains(rows[0][7], "17 of its channels are left out") {
		t.Errorf("got %q, want the number of omitted channels, 17", rows[0])
	}
}

// A mirror that receives only late frames has the state live and the health late.
func TestStatusShowsLateMirror(t *testing.T) {
	s := busy()
	s.Mirrors[1].LateS = 12.3
	a := &app{ui: &ui.Terminal{}}
	row := a.mirrorRows(s.Mirrors)[1]
	if row[2] != "late" || !strings.Contains(row[8], "no frame in time for 12") {
		t.Errorf("got %q, want health late and its duration", row)
	}
	s.Mirrors[1].State, s.Mirrors[1].Reason = status.MirrorStale, "no frame in time for 12 s, its deadline is 1 s"
	if row := a.mirrorRows(s.Mirrors)[1]; row[2] != "stale" || row[8] != s.Mirrors[1].Reason {
		t.Errorf("got %q, want health stale and its reason", row)
	}
	if err := diagnose.NotAtWork(busy().Report); err != nil {
		t.Errorf("status --check: %v", err)
	}
}

func TestStatusShowsChangedOptionsAndDropCauses(t *testing.T) {
	var out bytes.Buffer
	a := &app{ui: &ui.Terminal{Out: &out}}
	if err := a.showStatus(busy()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"krang  silent  192.168.1.20:8076  quic  CS6   20.1 ms  1 h  -",
		"krang.imu   krang/imu   live    -     0.0 %  12.3 ms  10.5 ms  1234 ms  -",
		"krang.imu  budget 20ms, priority 7  3512347 (2 late_kept)  superseded 87630, expired 2, late 3",
		"goal    krang  3600000  3600000  3512347 (2 late_kept)  -",
		"log     krang  -        7        7                      -",
		"goal    krang  max_rate 500  superseded 87630, expired 2, late 3",
	} {
		if !strings.Contains(out.String(), "\n"+want+"\n") {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
	if n := strings.Count(out.String(), "\nkrang.legs"); n != 1 {
		t.Errorf("mirror with default options and no drops: got %d lines, want 1:\n%s", n, out.String())
	}
	for line := range strings.Lines(out.String()) {
		if n := len(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("got %d columns, want at most 100: %s", n, line)
		}
	}
}

// fleetStatus returns the status of a host with 30 live mirrors of robot and 2 channels that robot reads.
func fleetStatus() api.StatusReply {
	s := api.StatusReply{Report: status.Report{
		Host: "pc", UptimeS: 4000,
		Links:   []status.Link{{Peer: "robot", State: status.LinkUp, Addr: "10.0.0.1:8076", Transport: "quic", RTTms: 4.51, UpS: 3990}},
		Exports: []status.Subscription{{Channel: "goal", Peer: "robot"}, {Channel: "speed", Peer: "robot"}},
		Locals:  []status.Local{{Channel: "goal", Exported: true}, {Channel: "speed", Exported: true}, {Channel: "scratch", Reason: "no rule exports it", Cause: status.CauseExportRule}},
	}}
	for i := range 30 {
		channel := fmt.Sprintf("joint-%02d", i)
		s.Mirrors = append(s.Mirrors, status.Mirror{Host: "robot", Channel: channel, Name: "robot." + channel, State: status.MirrorLive, AgeMs: pointer(8.2), PeriodMs: pointer(10.0)})
	}
	return s
}

func TestStatusIsShortWhileAllIsWell(t *testing.T) {
	statusGoldens(t, "status_well", false, fleetStatus())
}

func TestStatusShowsHostsAndChannelsWithProblems(t *testing.T) {
	s := fleetStatus()
	s.Hub = &api.Hub{Address: "tls://hub.example.com:4222", SinceS: 12, Error: "the hub refuses the credentials of pc"}
	s.Peers = []status.Peer{{Host: "atlas", State: status.PeerDialling, Addrs: []string{"10.0.0.2:8076"}, Error: "peer does not answer"}}
	s.Mirrors[3].LateS = 12.3
	s.Mirrors[7].State, s.Mirrors[7].Reason = status.MirrorStale, "no frame for 9 s, its deadline is 1 s"
	s.Mirrors = append(s.Mirrors,
		status.Mirror{Host: "mars", Channel: "imu", Name: "mars.imu", State: status.MirrorWaiting, Reason: "no link to mars"},
		status.Mirror{Host: "mars", Channel: "gps", Name: "peek-1", State: status.MirrorWaiting, Temporary: true})
	s.Exports[1].Reason = "its frames are larger than 16 MiB"
	s.Pushes = []status.Push{{Push: rule.Push{Channel: "plan", Host: "robot"}, State: status.PushRefused, Reason: "no accept rule of robot names plan"}}
	s.Locals[0].Mismatch = &status.Mismatch{Why: "4 bytes do not fit goal, which has 8"}
	s.Locals = append(s.Locals, status.Local{Channel: "log", Reason: "its file is corrupt", Cause: status.CauseCorrupt})
	statusGoldens(t, "status_bad", false, s)
}
