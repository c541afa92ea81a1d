package diagnose

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
)

var updateProblems = flag.Bool("update-troubles", false, "write testdata/troubles.golden anew; then look at it")

// fleet returns two seconds of a PC that mirrors 20 small channels and three cameras of krang without
// problems. change adds the problem of a case.
func fleet(change func(*Host)) Host {
	h := Host{Apart: 2 * time.Second, Free: "3.9 GiB free of 4 GiB", Load: "0.4 on 4 processors"}
	path := 20.0
	link := status.Link{Peer: "krang", Addr: "10.0.0.1:8076", Transport: "quic", State: "up", UpS: 58, RTTms: 10, ClockUncertaintyMs: 5, Inbound: &status.InboundPath{AtS: 58, Sent: 20_000}}
	h.Before.Host, h.After.Host = "pc", "pc"
	h.Before.Links = []status.Link{link}
	link.UpS, link.Inbound = 60, &status.InboundPath{AtS: 60, Sent: 25_000, PathMbit: &path}
	link.Received, link.ReceivedBytes = 5000, 1_550_000
	h.After.Links = []status.Link{link}
	add := func(name string, hz, bytes int) {
		age, oneWayDelay, period, due := 12.0, 6.0, 1000/float64(hz), 2.0
		m := status.Mirror{
			Host: "krang", Channel: name, Name: "krang." + name, State: "live", Seq: uint64(58 * hz), Bytes: bytes,
			AgeMs: &age, OneWayDelayMs: &oneWayDelay, PeriodMs: &period, DueMs: &due, FrameCounters: ledger.FrameCounters{Offered: uint64(58 * hz), Delivered: uint64(58 * hz)},
		}
		h.Before.Mirrors = append(h.Before.Mirrors, m)
		m.Seq = uint64(60 * hz)
		m.Offered, m.Delivered = m.Seq, m.Seq
		h.After.Mirrors = append(h.After.Mirrors, m)
	}
	for _, name := range []string{"left", "right", "rear"} {
		add("camera-"+name, 10, 21_700)
	}
	for i := range 20 {
		add(fmt.Sprintf("joint-%02d", i), 100, 62)
	}
	if change != nil {
		change(&h)
	}
	return h
}

// gets delivers a share of the frames that were put since the report was. All other frames are
// added to the counter that lost returns.
func gets(m *status.Mirror, was status.Mirror, share float64, lost func(*status.Mirror) *uint64) {
	put := m.Offered - was.Offered
	m.Delivered = was.Delivered + uint64(float64(put)*share)
	*lost(m) += put - uint64(float64(put)*share)
}

func superseded(m *status.Mirror) *uint64 { return &m.Superseded }
func lost(m *status.Mirror) *uint64       { return &m.Lost }
func lateKept(m *status.Mirror) *uint64   { return &m.LateKept }

func unlink(h *Host, p status.Peer) {
	h.After.Links, h.After.Peers = nil, []status.Peer{p}
	for i := range h.After.Mirrors {
		h.After.Mirrors[i].State, h.After.Mirrors[i].Reason, h.After.Mirrors[i].Cause = "waiting", "no link to krang", status.CausePeerMissing
	}
}

var wholes = []struct {
	name string
	host Host
	want []status.Cause
}{
	{"all is well", fleet(nil), nil},
	{"a thin link with cameras", fleet(func(h *Host) {
		l, path := &h.After.Links[0], 1.1
		l.Inbound.PathMbit, l.Inbound.FullS, l.ReceivedBytes = &path, 1.9, 275_000
		for i := range 3 {
			gets(&h.After.Mirrors[i], h.Before.Mirrors[i], 0.1, superseded)
		}
		gets(&h.After.Mirrors[7], h.Before.Mirrors[7], 0.6, superseded)
	}), []status.Cause{status.CauseLinkRate}},
	{"a lossy link", fleet(func(h *Host) {
		h.After.Links[0].Inbound.Lost = 1000
		for i := range h.After.Mirrors {
			gets(&h.After.Mirrors[i], h.Before.Mirrors[i], 0.8, lost)
		}
	}), []status.Cause{status.CauseLoss}},
	{"a dead robot, and atlas is well", fleet(func(h *Host) {
		unlink(h, status.Peer{Host: "krang", Addrs: []string{"10.0.0.1:8076"}, State: "dialling", Error: "no answer", Cause: status.CausePeerSilent})
		other, link := h.Before.Mirrors[5], h.Before.Links[0]
		other.Host, other.Name, link.Peer = "atlas", "atlas.imu", "atlas"
		h.Before.Mirrors, h.Before.Links = append(h.Before.Mirrors, other), append(h.Before.Links, link)
		other.Offered, other.Delivered = other.Offered+200, other.Delivered+200
		h.After.Mirrors, h.After.Links = append(h.After.Mirrors, other), append(h.After.Links, link)
	}), []status.Cause{status.CausePeerSilent}},
	{"a robot that was never seen", fleet(func(h *Host) {
		unlink(h, status.Peer{})
		h.After.Peers, h.Around = nil, map[string]Surroundings{"krang": {Discovery: true}}
	}), []status.Cause{status.CausePeerMissing}},
	{"a channel that the robot does not offer", fleet(func(h *Host) {
		m := &h.After.Mirrors[0]
		m.State, m.Reason, m.Cause = "waiting", "krang does not offer it", status.CauseNoChannel
	}), []status.Cause{status.CauseNoChannel}},
	{"a link that went silent", fleet(func(h *Host) { h.After.Links[0].State, h.After.Links[0].SilentS = "silent", 3.2 }), []status.Cause{status.CausePeerSilent}},
	{"full /dev/shm", fleet(func(h *Host) {
		h.Free = "0 B free of 4 GiB"
		for i := range 3 {
			m := &h.After.Mirrors[i]
			m.State, m.Cause, m.Reason = "refused", status.CauseShmFull, "no space left on device"
		}
	}), []status.Cause{status.CauseShmFull}},
	{"a busy processor", fleet(func(h *Host) {
		h.Load = "14.2 on 4 processors"
		for i := range h.After.Mirrors {
			gets(&h.After.Mirrors[i], h.Before.Mirrors[i], 0.5, lateKept)
		}
	}), []status.Cause{status.CauseHostBusy}},
	{"a daemon there that starves, which takes its lateness for a thin link", fleet(func(h *Host) {
		path, waits := 0.3, 0.95
		l := &h.After.Links[0]
		l.Inbound.PathMbit, l.Inbound.FullS, l.Inbound.CPUWait, l.ReceivedBytes = &path, 1.9, &waits, 75_000
		for i := range h.After.Mirrors {
			gets(&h.After.Mirrors[i], h.Before.Mirrors[i], 0.1, superseded)
		}
	}), []status.Cause{status.CauseHostBusy}},
	{"this daemon starves", fleet(func(h *Host) {
		waits := 0.75
		h.After.CPUWait, h.Load = &waits, "14.2 on 4 processors"
		gets(&h.After.Mirrors[5], h.Before.Mirrors[5], 0.5, lateKept)
	}), []status.Cause{status.CauseHostBusy}},
	{"two publishers are gone, and a rule is in the way", fleet(func(h *Host) {
		age := 9000.0
		for i := 8; i < 10; i++ {
			m, was := &h.After.Mirrors[i], h.Before.Mirrors[i]
			m.Seq, m.Offered, m.Delivered, m.AgeMs, m.DueMs = was.Seq, was.Offered, was.Delivered, &age, &age
		}
		m := &h.After.Mirrors[4]
		m.State, m.Cause, m.Reason, m.RefusedBy = "refused", status.CauseExportRule, "krang refuses: it does not let pc read joint-01", "krang"
	}), []status.Cause{status.CauseExportRule, status.CausePublisherStopped}},
	{"what goes out, and a push", fleet(func(h *Host) {
		path := 0.5
		h.After.Links[0].PathMbit, h.After.Links[0].FullS, h.After.Links[0].SentBytes = &path, 1.8, 125_000
		e := status.Subscription{Channel: "map", Peer: "krang", Bytes: 50_000, FrameCounters: ledger.FrameCounters{Offered: 100, Delivered: 100}}
		h.Before.Exports = []status.Subscription{e}
		e.Offered, e.Superseded, e.Delivered = 120, 18, 102
		h.After.Exports = []status.Subscription{e}
		h.After.Pushes = []status.Push{{State: "refused", Cause: status.CauseAcceptRule, Reason: "no rule accepts it"}}
		h.After.Pushes[0].Channel, h.After.Pushes[0].Host = "goal", "krang"
	}), []status.Cause{status.CauseAcceptRule, status.CauseLinkRate}},
	{"files that the daemon may not open", fleet(func(h *Host) {
		for _, name := range []string{"arm", "base"} {
			h.After.Locals = append(h.After.Locals, status.Local{Channel: name, Cause: status.CauseFileMode, Reason: "permission denied"})
		}
		h.After.Locals = append(h.After.Locals, status.Local{Channel: "secret", Cause: status.CauseExportRule, Reason: "a rule denies it"},
			status.Local{Channel: "krang.imu", Reason: "a mirror of krang"})
	}), []status.Cause{status.CauseFileMode}},
	{"a mirror is refused for a reason without a word", fleet(func(h *Host) {
		h.After.Mirrors[0].State, h.After.Mirrors[0].Reason = "refused", "it may not be"
	}), []status.Cause{status.CauseOther}},
	{"one look only", func() Host {
		h := fleet(func(h *Host) { h.After.Mirrors[0].State, h.After.Mirrors[0].Cause = "refused", status.CauseLimit })
		h.Before, h.Apart = h.After, 0
		return h
	}(), []status.Cause{status.CauseLimit}},
}

func TestProblemsOfHostAreSortedByCost(t *testing.T) {
	var out strings.Builder
	for _, c := range wholes {
		list := Problems(c.host)
		fmt.Fprintf(&out, "%s\n", c.name)
		var got []status.Cause
		for _, x := range list {
			got = append(got, x.Cause)
			fmt.Fprintf(&out, "  %s: %s\n    evidence: %s\n    fix: %s\n    %d channels\n", x.Cause, x.Text, strings.Join(x.Evidence, "; "), x.Fix, len(x.Channels))
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		fmt.Fprintf(&out, "  banner: %s\n\n", Banner(list))
	}
	const file = "testdata/troubles.golden"
	if *updateProblems {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
