package main

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge"
)

// sample is a robot whose imu, 100 Hz, is mirrored here and comes well, two seconds
// long. change makes it what a case is about.
func sample(change func(*snapshot, *bridge.MirrorStatus, *bridge.LinkStatus)) snapshot {
	age, transit := 12.0, 6.0
	s := snapshot{host: "robot", channel: "imu", apart: 2 * time.Second, offers: []string{"imu"}, around: surroundings{discovery: true, network: "11111111"}}
	s.rules = []verdict{{Verb: "mirror", Applies: true, Result: "mirrored here as robot.imu", Rule: "mirror[0]", From: "a.yaml:3"}}
	s.age = &bridge.AgeFigures{MeanMs: 11, P99Ms: 17}
	s.before.Links = []bridge.LinkStatus{{Peer: "robot", State: "up", UpS: 58, Traffic: bridge.Traffic{Received: 5800, ReceivedBytes: 580_000}}}
	s.before.Mirrors = []bridge.MirrorStatus{{Host: "robot", Channel: "imu", Name: "robot.imu", State: "live", Seq: 5800, Accounts: bridge.Accounts{Offered: 5800, Delivered: 5800}}}
	m := bridge.MirrorStatus{
		Host: "robot", Channel: "imu", Name: "robot.imu", State: "live", Seq: 6000, AgeMs: &age, TransitMs: &transit, Bytes: 64,
		Accounts: bridge.Accounts{Offered: 6000, Delivered: 6000},
	}
	l := bridge.LinkStatus{
		Peer: "robot", Addr: "10.0.0.1:8076", Transport: "quic", State: "up", UpS: 60, RTTms: 10, ClockUncertaintyMs: 5,
		Traffic: bridge.Traffic{Received: 6000, ReceivedBytes: 600_000},
	}
	s.after.Host = "pc"
	if change != nil {
		change(&s, &m, &l)
	}
	if m.Name != "" {
		s.after.Mirrors = append(s.after.Mirrors, m)
	}
	if l.Peer != "" {
		s.after.Links = append(s.after.Links, l)
	}
	return s
}

// unlinkedSample is the same without a link.
func unlinkedSample(change func(*snapshot)) snapshot {
	return sample(func(s *snapshot, m *bridge.MirrorStatus, l *bridge.LinkStatus) {
		s.offers, l.Peer = nil, ""
		m.State, m.Cause, m.Reason = "waiting", bridge.CausePeerMissing, "no link to robot"
		change(s)
	})
}

func TestDiagnoseNamesTheCause(t *testing.T) {
	type mirror = *bridge.MirrorStatus
	type link = *bridge.LinkStatus
	for name, c := range map[string]struct {
		s     snapshot
		cause bridge.Cause
		tells string // part of text, evidence and cure
	}{
		"well": {sample(nil), causeWell, "age: 11.0 ms on the mean, p99 17.0 ms, budget 100ms"},
		"well, put faster than anybody looks": {sample(func(s *snapshot, m mirror, l link) {
			m.Seq, m.Offered, m.Delivered, m.Superseded = 7800, 7800, 6800, 1000
		}), causeWell, "1e+03 frames a second"},
		"well, and rate limited": {sample(func(s *snapshot, m mirror, l link) {
			m.Delivered, m.RateLimited = 5810, 190
		}), causeWell, "5 a second came in time"},
		"well, at rest as usual": {sample(func(s *snapshot, m mirror, l link) {
			age := 30_000.0
			s.before.Mirrors[0].Seq, s.before.Mirrors[0].Offered, s.before.Mirrors[0].Delivered = 6, 6, 6
			m.Seq, m.Offered, m.Delivered, m.AgeMs = 6, 6, 6, &age
		}), causeWell, "rests"},
		"publisher stopped": {sample(func(s *snapshot, m mirror, l link) {
			age := 4000.0
			s.before.Mirrors[0].Seq, s.before.Mirrors[0].Offered, s.before.Mirrors[0].Delivered = 6000, 6000, 6000
			m.AgeMs = &age
		}), bridge.CausePublisherStopped, "its newest frame is 4000 ms old"},
		"publisher never began": {sample(func(s *snapshot, m mirror, l link) {
			s.before.Mirrors[0].Accounts = bridge.Accounts{}
			s.before.Mirrors[0].Seq, m.Seq, m.Accounts, m.AgeMs = 0, 0, bridge.Accounts{}, nil
		}), bridge.CausePublisherStopped, "it never had a frame"},
		"publisher slow": {sample(func(s *snapshot, m mirror, l link) {
			m.QoS.Deadline, m.State = 5*time.Millisecond, "stale"
		}), bridge.CausePublisherSlow, "the deadline is 5ms"},
		"link too slow": {sample(func(s *snapshot, m mirror, l link) {
			m.Bytes, m.Delivered, m.Superseded = 5000, 5840, 160
			transit := 55.0
			m.TransitMs = &transit
			l.ReceivedBytes = 800_000
		}), bridge.CauseLinkRate, "4 Mbit/s; the link carried 880 kbit/s in all"},
		"loss": {sample(func(s *snapshot, m mirror, l link) {
			l.Received, l.Missed = 5940, 60
			m.Delivered, m.Lost = 5940, 60
		}), bridge.CauseLoss, "loses 30 % of the packets"},
		"loss of few frames": {sample(func(s *snapshot, m mirror, l link) {
			l.Received, l.Missed = 5940, 60
			s.before.Mirrors[0].Seq, s.before.Mirrors[0].Accounts = 5980, bridge.Accounts{Offered: 5980, Delivered: 5980}
			m.Delivered, m.Lost = 5997, 3
		}), bridge.CauseLoss, "loses 30 % of the packets"},
		"loss that hurts nobody": {sample(func(s *snapshot, m mirror, l link) {
			l.Received, l.Missed = 5988, 12
			m.Delivered, m.Superseded = 5988, 12
		}), causeWell, "6.0 % lost"},
		"budget too small for the size": {sample(func(s *snapshot, m mirror, l link) {
			transit := 850.0
			s.before.Mirrors[0].Seq, s.before.Mirrors[0].Accounts = 58, bridge.Accounts{Offered: 58, LateKept: 58}
			m.Seq, m.Bytes, m.TransitMs, m.Accounts = 60, 100_000, &transit, bridge.Accounts{Offered: 60, LateKept: 60}
			l.ReceivedBytes = 800_000
		}), bridge.CauseBudget, "a budget of 1.1s at least"},
		"a daemon gets no processor": {sample(func(s *snapshot, m mirror, l link) {
			m.Delivered, m.Superseded, s.load = 5840, 160, "25.0 on 2 processors"
		}), bridge.CauseHostBusy, "load of pc: 25.0 on 2 processors"},
		"a daemon gets it late": {sample(func(s *snapshot, m mirror, l link) {
			m.Delivered, m.LateKept = 5960, 40
		}), bridge.CauseHostBusy, "late_kept 40"},
		"others fill the link": {sample(func(s *snapshot, m mirror, l link) {
			m.Delivered, m.Superseded = 5840, 160
			l.ReceivedBytes = 10_000_000
		}), bridge.CauseLinkRate, "carries less"},
		"late behind others": {sample(func(s *snapshot, m mirror, l link) {
			transit := 250.0
			m.Bytes, m.TransitMs, m.Delivered, m.LateKept = 100, &transit, 5900, 100
			l.ReceivedBytes = 10_000_000
		}), bridge.CauseLinkRate, "carries less than robot.imu needs"},
		"budget too small for the way": {sample(func(s *snapshot, m mirror, l link) {
			transit := 60.0
			m.QoS.Budget, m.TransitMs, l.RTTms = 20*time.Millisecond, &transit, 120
			m.Delivered, m.Late = 5800, 200
		}), bridge.CauseBudget, "60.0 ms on its way"},
		"clock": {sample(func(s *snapshot, m mirror, l link) {
			m.QoS.Budget, m.QoS.Class = 10*time.Millisecond, bridge.Command
			l.ClockUncertaintyMs = 5
			m.Delivered, m.Late = 5800, 200
		}), bridge.CauseClock, "± 5.00 ms"},
		"clock not known": {sample(func(s *snapshot, m mirror, l link) { m.AgeMs = nil }), bridge.CauseClock, "is not known"},
		"lock taken": {sample(func(s *snapshot, m mirror, l link) {
			m.LockWaitS, s.file.holder = 2, "thread 7 (reader)"
		}), bridge.CauseReceiverSlow, "held by thread 7 (reader)"},
		"puts fail": {sample(func(s *snapshot, m mirror, l link) {
			m.Cause, m.Reason, m.Refused, m.Delivered, s.file.free = bridge.CauseShmFull, "no room in /dev/shm", 200, 5800, "0 B of 24 MiB are free in /dev/shm"
		}), bridge.CauseShmFull, "0 B of 24 MiB are free"},
		"no room for the mirror": {sample(func(s *snapshot, m mirror, l link) {
			m.State, m.Cause, m.Reason = "refused", bridge.CauseShmFull, "no room in /dev/shm"
		}), bridge.CauseShmFull, "mount -o remount"},
		"export rule": {sample(func(s *snapshot, m mirror, l link) {
			m.State, m.Cause, m.Reason = "refused", bridge.CauseExportRule, "robot refuses: export[0] denies it"
		}), bridge.CauseExportRule, "export[0] denies it"},
		"not offered": {sample(func(s *snapshot, m mirror, l link) {
			m.State, s.offers = "waiting", []string{"arm", "leg"}
			s.told = word{bridge.CauseNoChannel, "imu: there is no such channel"}
		}), bridge.CauseNoChannel, "robot offers arm, leg"},
		"not to be read there": {sample(func(s *snapshot, m mirror, l link) {
			m.State, s.offers = "waiting", nil
			s.told = word{bridge.CauseFileMode, "imu: no permission"}
		}), bridge.CauseFileMode, "on robot: give the channel a group"},
		"not mirrored": {sample(func(s *snapshot, m mirror, l link) {
			m.Name = ""
			s.rules = []verdict{{Verb: "mirror", Result: "not mirrored: no rule names it", From: "default"}}
		}), bridge.CauseRule, "achbridge mirror robot/imu"},
		"denied here": {sample(func(s *snapshot, m mirror, l link) {
			m.Name = ""
			s.rules = []verdict{{Verb: "mirror", Result: "not mirrored: mirror[0] denies it", Rule: "mirror[0]", From: "a.yaml:3"}}
		}), bridge.CauseRule, "change mirror[0] (a.yaml:3)"},
		"silent": {sample(func(s *snapshot, m mirror, l link) {
			l.State, l.SilentS, m.State = "silent", 3.2, "waiting"
		}), bridge.CausePeerSilent, "for 3.2 s"},
		"listed and silent": {unlinkedSample(func(s *snapshot) {
			s.after.Peers = []bridge.PeerStatus{{Host: "robot", Addrs: []string{"10.0.0.1:8076"}, State: "dialling", Error: "dial: peer does not answer", Cause: bridge.CausePeerSilent}}
		}), bridge.CausePeerSilent, "robot does not answer at 10.0.0.1:8076"},
		"listed by address": {unlinkedSample(func(s *snapshot) {
			s.after.Peers = []bridge.PeerStatus{{Host: "10.0.0.1", Addrs: []string{"10.0.0.1:8076"}, State: "dialling", Error: "dial: peer does not answer", Cause: bridge.CausePeerSilent}}
		}), bridge.CausePeerSilent, "the listed peer 10.0.0.1 does not answer"},
		"another key": {unlinkedSample(func(s *snapshot) {
			s.after.Peers = []bridge.PeerStatus{{Host: "robot", Error: "another key", Cause: bridge.CauseKey}}
		}), bridge.CauseKey, "achbridge key show on both"},
		"stranger": {unlinkedSample(func(s *snapshot) { s.around.stranger = "22222222" }), bridge.CauseKey, "network 22222222, this host to 11111111"},
		"revoked there": {unlinkedSample(func(s *snapshot) {
			s.after.Peers = []bridge.PeerStatus{{Host: "robot", Error: "revoked", Cause: bridge.CauseRevoked}}
		}), bridge.CauseRevoked, "ca issue robot"},
		"revoked here":      {unlinkedSample(func(s *snapshot) { s.around.revoked = true }), bridge.CauseRevoked, "ca issue pc"},
		"certificate ended": {unlinkedSample(func(s *snapshot) { s.around.ended = "2020-01-01" }), bridge.CauseCertificate, "2020-01-01"},
		"never seen":        {unlinkedSample(func(s *snapshot) { s.around.seen = []string{"arm", "leg"} }), bridge.CausePeerMissing, "seen are arm and leg"},
		"discovery off":     {unlinkedSample(func(s *snapshot) { s.around.discovery = false }), bridge.CausePeerMissing, "discovery is off"},
		"no multicast":      {unlinkedSample(func(s *snapshot) { s.around.multicast = []string{"eth0: dropped"} }), bridge.CauseMulticast, "eth0: dropped"},
		"multicast blocked": {unlinkedSample(func(s *snapshot) { s.around.answers = "10.0.0.1:8076" }), bridge.CauseMulticast, "robot answers at 10.0.0.1:8076"},
	} {
		t.Run(name, func(t *testing.T) { judge(t, diagnose(c.s), c.cause, c.tells) })
	}
}

// judge compares the first of some findings.
func judge(t *testing.T, list []finding, cause bridge.Cause, tells string) {
	t.Helper()
	f := list[0]
	if f.Cause != cause {
		t.Errorf("got %+v, want %s", f, cause)
	}
	if all := strings.Join(append([]string{f.Text, f.Cure}, f.Evidence...), "\n"); !strings.Contains(all, tells) {
		t.Errorf("%q is not told in\n%s", tells, all)
	}
	if bad := f.Cause != causeWell; bad && f.Cure == "" {
		t.Errorf("%s has no cure", f.Cause)
	}
	for _, f := range list {
		if f.Evidence == nil {
			t.Errorf("%+v: no list of evidence", f)
		}
	}
}

// originSample is a channel of this host that one PC reads well.
func originSample(change func(*snapshot, *bridge.LocalStatus, *bridge.ExportStatus, *bridge.LinkStatus)) snapshot {
	s := snapshot{host: "robot", channel: "imu", self: true, apart: 2 * time.Second, file: fileFacts{there: true, mode: "mode 0600, owner root:root", daemon: "achbridge:ach"}}
	s.before.Locals = []bridge.LocalStatus{{Channel: "imu", Seq: 5800, Exported: true}}
	s.before.Exports = []bridge.ExportStatus{{Channel: "imu", Peer: "pc", Accounts: bridge.Accounts{Offered: 5800, Delivered: 5800}}}
	s.before.Links = []bridge.LinkStatus{{Peer: "pc", State: "up", Traffic: bridge.Traffic{Sent: 5800, SentBytes: 580_000}}}
	c := bridge.LocalStatus{Channel: "imu", Seq: 6000, Exported: true}
	e := bridge.ExportStatus{Channel: "imu", Peer: "pc", Bytes: 64, Accounts: bridge.Accounts{Offered: 6000, Delivered: 6000}}
	l := bridge.LinkStatus{Peer: "pc", State: "up", RTTms: 10, UpS: 60, Traffic: bridge.Traffic{Sent: 6000, SentBytes: 600_000}}
	s.after.Host = "robot"
	if change != nil {
		change(&s, &c, &e, &l)
	}
	if c.Channel != "" {
		s.after.Locals = append(s.after.Locals, c)
	}
	if e.Channel != "" {
		s.after.Exports = append(s.after.Exports, e)
	}
	s.after.Links = append(s.after.Links, l)
	return s
}

func TestDiagnoseLooksAtTheOriginToo(t *testing.T) {
	type local = *bridge.LocalStatus
	type export = *bridge.ExportStatus
	type link = *bridge.LinkStatus
	mbit := 1.0
	for name, c := range map[string]struct {
		s     snapshot
		cause bridge.Cause
		tells string
	}{
		"well":          {originSample(nil), causeWell, "gets to the host that reads it"},
		"nobody reads":  {originSample(func(s *snapshot, c local, e export, l link) { e.Channel = "" }), causeWell, "nobody reads it"},
		"stopped":       {originSample(func(s *snapshot, c local, e export, l link) { c.Seq, e.Accounts = 5800, s.before.Exports[0].Accounts }), bridge.CausePublisherStopped, "it stays at frame 5800 for 2 s"},
		"lock is taken": {originSample(func(s *snapshot, c local, e export, l link) { c.Seq, s.file.holder = 5800, "thread 9 (viewer)" }), bridge.CausePublisherStopped, "held by thread 9"},
		"no channel":    {originSample(func(s *snapshot, c local, e export, l link) { c.Channel, s.file.there = "", false }), bridge.CauseNoChannel, "channel create imu"},
		"file mode": {originSample(func(s *snapshot, c local, e export, l link) {
			c.Cause, c.Reason = bridge.CauseFileMode, "no permission"
		}), bridge.CauseFileMode, "mode 0600, owner root:root; the daemon runs as achbridge:ach"},
		"corrupt": {originSample(func(s *snapshot, c local, e export, l link) {
			c.Cause, c.Reason = bridge.CauseCorrupt, "a writer died inside put"
		}), bridge.CauseCorrupt, "channel rm imu"},
		"hidden": {originSample(func(s *snapshot, c local, e export, l link) {
			e.Channel, c.Cause, c.Reason = "", bridge.CauseExportRule, "not exported"
			s.rules = []verdict{{Verb: "export", Result: "nobody may read it: export[0] denies it", Rule: "export[0]", From: "a.yaml:2"}}
		}), bridge.CauseExportRule, "export[0], a.yaml:2"},
		"a mirror that is put into here": {originSample(func(s *snapshot, c local, e export, l link) {
			e.Channel, c.Cause, c.Reason, s.file.mirror = "", bridge.CauseExportRule, "it is a mirror", true
			s.rules = []verdict{{Verb: "export", Applies: true, Result: "every host with the key may read it"}}
		}), bridge.CauseExportRule, "is offered to nobody: it is a mirror"},
		"pushed by a host that is gone": {originSample(func(s *snapshot, c local, e export, l link) {
			e.Channel, c.Cause, c.Reason, c.Seq, s.file.mirror = "", bridge.CauseExportRule, "it is a mirror", 5800, true
			s.after.Peers = []bridge.PeerStatus{{Host: "planner", State: "dialling", Error: "peer does not answer"}}
		}), bridge.CausePeerMissing, "planner is not linked: peer does not answer"},
		"push refused": {originSample(func(s *snapshot, c local, e export, l link) {
			e.Channel = ""
			s.after.Pushes = []bridge.PushStatus{{Push: bridge.Push{Channel: "imu", Host: "pc"}, State: "refused", Cause: bridge.CauseAcceptRule, Reason: "pc does not accept imu"}}
		}), bridge.CauseAcceptRule, "on pc: change its accept rules"},
		"push to nobody": {originSample(func(s *snapshot, c local, e export, l link) {
			e.Channel, s.around.discovery = "", true
			s.after.Pushes = []bridge.PushStatus{{Push: bridge.Push{Channel: "imu", Host: "base"}, State: "waiting"}}
		}), bridge.CausePeerMissing, "it is pushed to base"},
		"link too slow": {originSample(func(s *snapshot, c local, e export, l link) {
			e.Bytes, e.Delivered, e.Superseded, l.FullS, l.PathMbit = 5000, 5840, 160, 1.9, &mbit
		}), bridge.CauseLinkRate, "frames waited for the link 95 % of the time"},
		"this daemon gets no processor": {originSample(func(s *snapshot, c local, e export, l link) {
			e.Delivered, e.Superseded, l.FullS = 5840, 160, 0.1
		}), bridge.CauseHostBusy, "give the daemon of robot the processor"},
		"loss": {originSample(func(s *snapshot, c local, e export, l link) {
			l.Lost, e.Delivered, e.Lost, l.FullS = 50, 5950, 50, 1.9
		}), bridge.CauseLoss, "to pc loses 25 %"},
		"budget": {originSample(func(s *snapshot, c local, e export, l link) {
			s.before.Locals[0].Seq, c.Seq = 58, 60
			s.before.Exports[0].Accounts = bridge.Accounts{Offered: 58, LateKept: 58}
			e.Bytes, e.Accounts, l.FullS, l.PathMbit = 50_000, bridge.Accounts{Offered: 60, LateKept: 60}, 1.2, &mbit
		}), bridge.CauseBudget, "takes 400 ms to send and 5.00 ms on its way"},
		"cannot be put": {originSample(func(s *snapshot, c local, e export, l link) {
			e.Delivered, e.Refused = 5800, 200
		}), bridge.CauseOther, "on pc: achbridge why"},
		"cannot be read": {originSample(func(s *snapshot, c local, e export, l link) {
			e.Reason = "channel lock held by another process"
		}), bridge.CauseReceiverSlow, "imu cannot be read"},
	} {
		t.Run(name, func(t *testing.T) { judge(t, diagnose(c.s), c.cause, c.tells) })
	}
}

func TestWhyResolvesNames(t *testing.T) {
	s := sample(nil)
	for of, want := range map[string]struct {
		name, host, channel string
		self                bool
	}{
		"robot/imu":       {"robot.imu", "robot", "imu", false},
		"ach://robot/imu": {"robot.imu", "robot", "imu", false},
		"robot.imu":       {"robot.imu", "robot", "imu", false},
		"robot/legs":      {"", "robot", "legs", false},
		"goal":            {"goal", "pc", "goal", true},
		"pc/goal":         {"goal", "pc", "goal", true},
	} {
		got := s
		name, err := got.resolve(of, "pc")
		if err != nil || name != want.name || got.host != want.host || got.channel != want.channel || got.self != want.self {
			t.Errorf("%s: got %q %q %q %v, %v", of, name, got.host, got.channel, got.self, err)
		}
	}
	for _, of := range []string{"", "robot/*", "*/imu", "a/b/c", "/imu", "robot/"} {
		if _, err := s.resolve(of, "pc"); err == nil {
			t.Errorf("%q: got no error", of)
		}
	}
}
