package diagnose

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/config"
	"achbridge/localach"
)

// sample returns two seconds of a mirror of a robot's imu, 100 Hz, without problems. change
// adds the problem of a case.
func sample(change func(*Snapshot, *status.Mirror, *status.Link)) Snapshot {
	age, oneWayDelay, period, due := 12.0, 6.0, 10.0, 2.0
	s := Snapshot{Host: "robot", Channel: "imu", Apart: 2 * time.Second, Offers: []string{"imu"}, Around: Surroundings{Discovery: true, Network: "11111111"}}
	s.Rules = []config.Judgement{{Kind: "mirror", Applies: true, Result: "mirrored here as robot.imu", Rule: "mirror[0]", From: "a.yaml:3"}}
	s.Age = &status.AgeFigures{MeanMs: 11, P99Ms: 17}
	s.Before.Links = []status.Link{{Peer: "robot", State: "up", UpS: 58, Traffic: status.Traffic{Received: 5800, ReceivedBytes: 580_000}}}
	s.Before.Mirrors = []status.Mirror{{Host: "robot", Channel: "imu", Name: "robot.imu", State: "live", Seq: 5800, FrameCounters: ledger.FrameCounters{Offered: 5800, Delivered: 5800}}}
	m := status.Mirror{
		Host: "robot", Channel: "imu", Name: "robot.imu", State: "live", Seq: 6000, AgeMs: &age, PeriodMs: &period, DueMs: &due, OneWayDelayMs: &oneWayDelay, Bytes: 64,
		FrameCounters: ledger.FrameCounters{Offered: 6000, Delivered: 6000},
	}
	l := status.Link{
		Peer: "robot", Addr: "10.0.0.1:8076", Transport: "quic", State: "up", UpS: 60, RTTms: 10, ClockUncertaintyMs: 5,
		Traffic: status.Traffic{Received: 6000, ReceivedBytes: 600_000},
	}
	s.After.Host = "pc"
	if change != nil {
		change(&s, &m, &l)
	}
	if m.Name != "" {
		s.After.Mirrors = append(s.After.Mirrors, m)
	}
	if l.Peer != "" {
		s.After.Links = append(s.After.Links, l)
	}
	return s
}

// unlinkedSample is like sample, but there is no link.
func unlinkedSample(change func(*Snapshot)) Snapshot {
	return sample(func(s *Snapshot, m *status.Mirror, l *status.Link) {
		s.Offers, l.Peer = nil, ""
		m.State, m.Cause, m.Reason = "waiting", status.CausePeerMissing, "no link to robot"
		change(s)
	})
}

func TestDiagnoseNamesTheCause(t *testing.T) {
	type mirror = *status.Mirror
	type link = *status.Link
	for name, c := range map[string]struct {
		s        Snapshot
		cause    status.Cause
		contains string // part of text, evidence and fix
	}{
		"well": {sample(nil), Well, "age: 11.0 ms on average, p99 17.0 ms, budget 100 ms"},
		"well, put faster than anybody looks": {sample(func(s *Snapshot, m mirror, l link) {
			m.Seq, m.Offered, m.Delivered, m.Superseded = 7800, 7800, 6800, 1000
		}), Well, "1e+03 frames a second"},
		"well, and rate limited": {sample(func(s *Snapshot, m mirror, l link) {
			m.Delivered, m.RateLimited = 5810, 190
		}), Well, "5 a second came in time"},
		"well, at rest as usual": {sample(func(s *Snapshot, m mirror, l link) {
			age, period, due := 30_000.0, 29_950.0, 50.0
			m.PeriodMs, m.DueMs = &period, &due
			s.Before.Mirrors[0].Seq, s.Before.Mirrors[0].Offered, s.Before.Mirrors[0].Delivered = 6, 6, 6
			m.Seq, m.Offered, m.Delivered, m.AgeMs = 6, 6, 6, &age
		}), Well, "rests"},
		"publisher stopped": {sample(func(s *Snapshot, m mirror, l link) {
			age, due := 4000.0, 3990.0
			m.DueMs = &due
			s.Before.Mirrors[0].Seq, s.Before.Mirrors[0].Offered, s.Before.Mirrors[0].Delivered = 6000, 6000, 6000
			m.AgeMs = &age
		}), status.CausePublisherStopped, "its newest frame is 4000 ms old"},
		"publisher never began": {sample(func(s *Snapshot, m mirror, l link) {
			s.Before.Mirrors[0].FrameCounters = ledger.FrameCounters{}
			s.Before.Mirrors[0].Seq, m.Seq, m.FrameCounters, m.AgeMs, m.PeriodMs, m.DueMs = 0, 0, ledger.FrameCounters{}, nil, nil, nil
		}), status.CausePublisherStopped, "it never had a frame"},
		"publisher stopped a moment ago": {sample(func(s *Snapshot, m mirror, l link) {
			age, due := 700.0, 690.0
			m.AgeMs, m.DueMs, m.Seq, m.Offered, m.Delivered = &age, &due, 5930, 5930, 5930
		}), status.CausePublisherStopped, "its newest frame is 700 ms old"},
		"publisher rested": {sample(func(s *Snapshot, m mirror, l link) {
			m.Seq, m.Offered, m.Delivered, s.Age.OverBudget = 5930, 5930, 5930, 0.3
		}), status.CausePublisherSlow, "for longer than the budget 30 % of the time"},
		"5 Hz with a budget of 100 ms": {sample(func(s *Snapshot, m mirror, l link) {
			age, period, due := 180.0, 200.0, 0.0
			m.Seq, m.Offered, m.Delivered, m.AgeMs, m.PeriodMs, m.DueMs = 5810, 5810, 5810, &age, &period, &due
			s.Age.P99Ms = 207
		}), Well, "it comes only every 200 ms"},
		"the link stands still": {sample(func(s *Snapshot, m mirror, l link) {
			due := 150.0
			m.DueMs, m.Delivered, m.InFlight = &due, 5985, 15
		}), status.CauseHostBusy, "leave late"},
		"no room on the link, as its origin says": {sample(func(s *Snapshot, m mirror, l link) {
			m.Delivered, m.Superseded = 5840, 160
			s.Before.Links[0].Inbound = &status.InboundPath{AtS: 10}
			l.Inbound = &status.InboundPath{AtS: 12, FullS: 1.8}
		}), status.CauseLinkRate, "waited for the link 90 % of the time"},
		"room on the link, as its origin says": {sample(func(s *Snapshot, m mirror, l link) {
			oneWayDelay := 55.0
			m.Bytes, m.Delivered, m.Superseded, m.OneWayDelayMs = 5000, 5840, 160, &oneWayDelay
			l.ReceivedBytes = 800_000
			s.Before.Links[0].Inbound = &status.InboundPath{AtS: 10}
			l.Inbound = &status.InboundPath{AtS: 12, FullS: 0.1}
		}), status.CauseHostBusy, "though the link from robot has room"},
		"cannot be read there": {sample(func(s *Snapshot, m mirror, l link) {
			m.OriginCause, m.Delivered, m.InFlight = status.CauseReceiverSlow, 5800, 200
		}), status.CauseReceiverSlow, "cannot be read on robot"},
		"publisher slow": {sample(func(s *Snapshot, m mirror, l link) {
			m.QoS.Deadline, m.State = 5*time.Millisecond, "stale" // a frame arrives every 10 ms
		}), status.CausePublisherSlow, "the deadline is 5 ms"},
		"two daemons write": {sample(func(s *Snapshot, m mirror, l link) {
			s.Before.Mirrors[0].Foreign = 100
			m.State, m.Cause, m.Reason, m.Foreign = "contested", status.CauseForeignWriter, "somebody else writes into it too", 180
		}), status.CauseForeignWriter, "80 frames of another"},
		"link too slow": {sample(func(s *Snapshot, m mirror, l link) {
			m.Bytes, m.Delivered, m.Superseded = 5000, 5840, 160
			oneWayDelay := 55.0
			m.OneWayDelayMs = &oneWayDelay
			l.ReceivedBytes = 800_000
		}), status.CauseLinkRate, "4 Mbit/s; the link carried 880 kbit/s in all"},
		"loss": {sample(func(s *Snapshot, m mirror, l link) {
			l.Received, l.Missed = 5940, 60
			m.Delivered, m.Lost = 5940, 60
		}), status.CauseLoss, "loses 30 % of the packets"},
		"loss of few frames": {sample(func(s *Snapshot, m mirror, l link) {
			l.Received, l.Missed = 5940, 60
			s.Before.Mirrors[0].Seq, s.Before.Mirrors[0].FrameCounters = 5980, ledger.FrameCounters{Offered: 5980, Delivered: 5980}
			m.Delivered, m.Lost = 5997, 3
		}), status.CauseLoss, "loses 30 % of the packets"},
		"loss that hurts nobody": {sample(func(s *Snapshot, m mirror, l link) {
			l.Received, l.Missed = 5988, 12
			m.Delivered, m.Superseded = 5988, 12
		}), Well, "6.0 % lost"},
		"budget too small for the size": {sample(func(s *Snapshot, m mirror, l link) {
			oneWayDelay := 850.0
			s.Before.Mirrors[0].Seq, s.Before.Mirrors[0].FrameCounters = 58, ledger.FrameCounters{Offered: 58, LateKept: 58}
			m.Seq, m.Bytes, m.OneWayDelayMs, m.FrameCounters = 60, 100_000, &oneWayDelay, ledger.FrameCounters{Offered: 60, LateKept: 60}
			l.ReceivedBytes = 800_000
		}), status.CauseBudget, "a budget of 1.1 s at least"},
		"a daemon gets no processor": {sample(func(s *Snapshot, m mirror, l link) {
			m.Delivered, m.Superseded, s.Load = 5840, 160, "25.0 on 2 processors"
		}), status.CauseHostBusy, "load of pc: 25.0 on 2 processors"},
		"a daemon gets it late": {sample(func(s *Snapshot, m mirror, l link) {
			m.Delivered, m.LateKept = 5960, 40
		}), status.CauseHostBusy, "late_kept 40"},
		"only late frames come": {sample(func(s *Snapshot, m mirror, l link) {
			oneWayDelay := 150.0
			m.LateS, m.OneWayDelayMs, l.RTTms, m.Delivered, m.LateKept = 12, &oneWayDelay, 300, 5800, 200
		}), status.CauseBudget, "late: every frame that comes to pc is past its budget of 100 ms"},
		"only late frames come, one in two seconds": {sample(func(s *Snapshot, m mirror, l link) {
			oneWayDelay, age, period, due := 150.0, 1800.0, 5000.0, 0.0
			s.Before.Mirrors[0].Seq, s.Before.Mirrors[0].FrameCounters = 60, ledger.FrameCounters{Offered: 60, LateKept: 60}
			m.Seq, m.FrameCounters, m.AgeMs, m.PeriodMs, m.DueMs = 60, ledger.FrameCounters{Offered: 60, LateKept: 60}, &age, &period, &due
			m.LateS, m.OneWayDelayMs, l.RTTms = 30, &oneWayDelay, 300
		}), status.CauseBudget, "late: every frame"},
		"only late frames came, and nothing any more": {sample(func(s *Snapshot, m mirror, l link) {
			oneWayDelay, age, period, due := 150.0, 1800.0, 10.0, 1790.0
			s.Before.Mirrors[0].Seq, s.Before.Mirrors[0].FrameCounters = 60, ledger.FrameCounters{Offered: 60, LateKept: 60}
			m.Seq, m.FrameCounters, m.AgeMs, m.PeriodMs, m.DueMs = 60, ledger.FrameCounters{Offered: 60, LateKept: 60}, &age, &period, &due
			m.LateS, m.OneWayDelayMs, l.RTTms = 30, &oneWayDelay, 300
		}), status.CausePublisherStopped, "its newest frame is 1800 ms old"},
		"only late frames come, on a good link": {sample(func(s *Snapshot, m mirror, l link) {
			m.LateS, m.Delivered, m.LateKept = 12, 5999, 1
		}), status.CauseHostBusy, "late: every frame"},
		"only late frames come, since others fill the link": {sample(func(s *Snapshot, m mirror, l link) {
			oneWayDelay := 250.0
			m.LateS, m.Bytes, m.OneWayDelayMs, m.Delivered, m.LateKept = 12, 100, &oneWayDelay, 5800, 200
			l.ReceivedBytes = 10_000_000
		}), status.CauseLinkRate, "late: every frame"},
		"only late frames come, and the lock is taken": {sample(func(s *Snapshot, m mirror, l link) {
			m.LateS, m.Delivered, m.LateKept, m.LockWaitS = 12, 5800, 200, 2
		}), status.CauseReceiverSlow, "late: every frame"},
		"others fill the link": {sample(func(s *Snapshot, m mirror, l link) {
			m.Delivered, m.Superseded = 5840, 160
			l.ReceivedBytes = 10_000_000
		}), status.CauseLinkRate, "carries less"},
		"late behind others": {sample(func(s *Snapshot, m mirror, l link) {
			oneWayDelay := 250.0
			m.Bytes, m.OneWayDelayMs, m.Delivered, m.LateKept = 100, &oneWayDelay, 5900, 100
			l.ReceivedBytes = 10_000_000
		}), status.CauseLinkRate, "carries less than robot.imu needs"},
		"budget too small for the way": {sample(func(s *Snapshot, m mirror, l link) {
			oneWayDelay := 60.0
			m.QoS.Budget, m.OneWayDelayMs, l.RTTms = 20*time.Millisecond, &oneWayDelay, 120
			m.Delivered, m.Late = 5800, 200
		}), status.CauseBudget, "60.0 ms on its way"},
		"clock": {sample(func(s *Snapshot, m mirror, l link) {
			m.QoS.Budget, m.QoS.Class = 10*time.Millisecond, rule.Command
			l.ClockUncertaintyMs = 5
			m.Delivered, m.Late = 5800, 200
		}), status.CauseClock, "± 5.00 ms"},
		"clock not known": {sample(func(s *Snapshot, m mirror, l link) { m.AgeMs = nil }), status.CauseClock, "is not known"},
		"lock taken": {sample(func(s *Snapshot, m mirror, l link) {
			m.LockWaitS, s.File.Holder = 2, "thread 7 (reader)"
		}), status.CauseReceiverSlow, "held by thread 7 (reader)"},
		"puts fail": {sample(func(s *Snapshot, m mirror, l link) {
			m.Cause, m.Reason, m.Refused, m.Delivered, s.File.Free = status.CauseShmFull, "no room in /dev/shm", 200, 5800, "0 B of 24 MiB are free in /dev/shm"
		}), status.CauseShmFull, "0 B of 24 MiB are free"},
		"no room for the mirror": {sample(func(s *Snapshot, m mirror, l link) {
			m.State, m.Cause, m.Reason = "refused", status.CauseShmFull, "no room in /dev/shm"
		}), status.CauseShmFull, "mount -o remount"},
		"share used up": {sample(func(s *Snapshot, m mirror, l link) {
			m.State, m.Cause, m.Reason = "refused", status.CauseShmShare, "no room in /dev/shm for a mirror that no rule names"
		}), status.CauseShmShare, "in a rule of its own, without a pattern: achbridge mirror robot/imu"},
		"file of another user": {sample(func(s *Snapshot, m mirror, l link) {
			m.State, m.Cause, m.Reason = "refused", status.CauseFileMode, "permission denied"
		}), status.CauseFileMode, "file_mode of the mirror's rule"},
		"frames too large": {sample(func(s *Snapshot, m mirror, l link) {
			m.State, m.Cause, m.Reason = "refused", status.CauseFrameSize, "goal: a frame of 3898 bytes does not fit"
		}), status.CauseFrameSize, "achbridge channel create robot.imu --replace"},
		"damaged mirror": {sample(func(s *Snapshot, m mirror, l link) {
			m.State, m.Cause, m.Reason = "refused", status.CauseCorrupt, "robot.imu: corrupt channel"
		}), status.CauseCorrupt, "then achbridge channel rm robot.imu"},
		"channel of Ach 1.x under the mirror's name": {sample(func(s *Snapshot, m mirror, l link) {
			m.State, m.Cause, m.Reason = "refused", status.CauseAch1x, "robot.imu: channel of another kind of Ach"
		}), status.CauseAch1x, "another name: --as NAME"},
		"channel of Ach 1.x there": {sample(func(s *Snapshot, m mirror, l link) {
			m.State, s.Offers = "waiting", nil
			s.OriginReason = Word{status.CauseAch1x, "imu: channel of another kind of Ach"}
		}), status.CauseAch1x, "on robot, run the achd that belongs to its Ach; then here: achbridge mirror achd://robot/imu"},
		"hidden by a kernel channel": {sample(func(s *Snapshot, m mirror, l link) {
			s.File.Kernel = HiddenBy(localach.Device{Path: "/dev/ach-robot.imu"}, true)
		}), status.CauseKernelChannel, "robot.imu: programs of root open the kernel's channel /dev/ach-robot.imu instead\ngive the mirror another name"},
		"no copy in the kernel": {sample(func(s *Snapshot, m mirror, l link) {
			m.State, m.Cause, m.Reason = "refused", status.CauseKernelMirror, "not in the kernel: /dev/ach-robot.imu: input/output error"
		}), status.CauseKernelMirror, "robot/imu is not in the kernel: /dev/ach-robot.imu: input/output error\nremove the reason, or set kernel: true"},
		"frame size, and no inotify": {sample(func(s *Snapshot, m mirror, l link) {
			m.State, m.Cause, m.Reason, s.After.NoInotify = "refused", status.CauseFrameSize, "too large", "too many open files"
		}), status.CauseFrameSize, "create robot.imu --replace"},
		"export rule": {sample(func(s *Snapshot, m mirror, l link) {
			m.State, m.Cause, m.Reason, m.RefusedBy = "refused", status.CauseExportRule, "robot refuses: export[0] denies it", "robot"
		}), status.CauseExportRule, "export[0] denies it\non robot: change the export rules, then achbridge reload; achbridge check --explain imu"},
		"not offered": {sample(func(s *Snapshot, m mirror, l link) {
			m.State, s.Offers = "waiting", []string{"arm", "leg"}
			s.OriginReason = Word{status.CauseNoChannel, "imu: there is no such channel"}
		}), status.CauseNoChannel, "robot offers arm, leg"},
		"not offered, and no answer": {sample(func(s *Snapshot, m mirror, l link) {
			m.State, s.Offers, s.OriginReason = "waiting", nil, Word{Text: "robot does not answer"}
		}), status.CauseNoChannel, "robot does not offer imu; the reason is unknown: robot does not answer"},
		"not to be read there": {sample(func(s *Snapshot, m mirror, l link) {
			m.State, s.Offers = "waiting", nil
			s.OriginReason = Word{status.CauseFileMode, "imu: no permission"}
		}), status.CauseFileMode, "on robot: give the channel a group"},
		"not mirrored": {sample(func(s *Snapshot, m mirror, l link) {
			m.Name = ""
			s.Rules = []config.Judgement{{Kind: "mirror", Result: "not mirrored: no rule names it", From: "default"}}
		}), status.CauseRule, "achbridge mirror robot/imu"},
		"denied here": {sample(func(s *Snapshot, m mirror, l link) {
			m.Name = ""
			s.Rules = []config.Judgement{{Kind: "mirror", Result: "not mirrored: mirror[0] denies it", Rule: "mirror[0]", From: "a.yaml:3"}}
		}), status.CauseRule, "change mirror[0] (a.yaml:3)"},
		"silent": {sample(func(s *Snapshot, m mirror, l link) {
			l.State, l.SilentS, m.State = "silent", 3.2, "waiting"
		}), status.CausePeerSilent, "for 3.2 s"},
		"listed and silent": {unlinkedSample(func(s *Snapshot) {
			s.After.Peers = []status.Peer{{Host: "robot", Addrs: []string{"10.0.0.1:8076"}, State: "dialling", Error: "dial: peer does not answer", Cause: status.CausePeerSilent}}
		}), status.CausePeerSilent, "robot does not answer at 10.0.0.1:8076"},
		"known at the hub alone, which is not reached": {unlinkedSample(func(s *Snapshot) {
			s.After.Peers = []status.Peer{{Host: "robot", Addrs: []string{"hub"}, State: "known", Error: "no connection to the hub", Cause: status.CauseOther}}
			s.Around.Hub = "the hub refuses the credentials of pc"
		}), status.CausePeerSilent, "robot is reached only through the hub, to which this host has no connection\nachbridge hub check"},
		"listed by address": {unlinkedSample(func(s *Snapshot) {
			s.After.Peers = []status.Peer{{Host: "10.0.0.1", Addrs: []string{"10.0.0.1:8076"}, State: "dialling", Error: "dial: peer does not answer", Cause: status.CausePeerSilent}}
		}), status.CausePeerSilent, "the listed peer 10.0.0.1 does not answer"},
		"listed under another name": {unlinkedSample(func(s *Snapshot) {
			s.After.Peers = []status.Peer{{Host: "krang", ListedAs: "robot", State: "linked"}}
		}), status.CausePeerMissing, "the peer that is listed as robot is host krang"},
		"beside a ghost of its name": {unlinkedSample(func(s *Snapshot) {
			s.After.Peers = []status.Peer{
				{Host: "robot", Addrs: []string{"10.0.0.1:8076"}, Error: "peer does not answer", Cause: status.CausePeerSilent},
				{Host: "robot", Addrs: []string{"10.9.9.9:8076"}, Error: "peer does not answer", Cause: status.CausePeerSilent},
			}
		}), status.CausePeerSilent, "robot does not answer at 10.0.0.1:8076"},
		"another key": {unlinkedSample(func(s *Snapshot) {
			s.After.Peers = []status.Peer{{Host: "robot", Error: "another key", Cause: status.CauseKey}}
		}), status.CauseKey, "achbridge key show on both"},
		"stranger": {unlinkedSample(func(s *Snapshot) { s.Around.OtherNetwork = "22222222" }), status.CauseKey, "network 22222222, this host to 11111111"},
		"behind a reflector": {unlinkedSample(func(s *Snapshot) {
			s.Around.Far, s.Around.FarFix = "robot is announced at 10.9.0.2, and not dialled", "if that is the host: --peer 10.9.0.2"
		}), status.CausePeerMissing, "--peer 10.9.0.2"},
		"revoked there": {unlinkedSample(func(s *Snapshot) {
			s.After.Peers = []status.Peer{{Host: "robot", Error: "revoked", Cause: status.CauseRevoked}}
		}), status.CauseRevoked, "ca issue robot"},
		"revoked here": {unlinkedSample(func(s *Snapshot) { s.Around.Revoked = true }), status.CauseRevoked, "ca issue pc"},
		"revoked here, says robot": {unlinkedSample(func(s *Snapshot) {
			s.After.Peers = []status.Peer{{Host: "robot", Error: "our certificate is revoked", Cause: status.CauseRevoked, OwnCertificate: true}}
		}), status.CauseRevoked, "the certificate of pc is revoked, says robot\nachbridge ca issue pc, where the authority is, and copy the key here"},
		"not good now, says robot": {unlinkedSample(func(s *Snapshot) {
			s.After.Peers = []status.Peer{{Host: "robot", Error: "our certificate is not valid now", Cause: status.CauseCertificate, OwnCertificate: true}}
		}), status.CauseCertificate, "achbridge ca issue pc, where the authority is, and copy the key here; or set the clock right, on both"},
		"certificate ended": {unlinkedSample(func(s *Snapshot) { s.Around.Ended = "2020-01-01" }), status.CauseCertificate, "2020-01-01"},
		"never seen":        {unlinkedSample(func(s *Snapshot) { s.Around.Seen = []string{"arm", "leg"} }), status.CausePeerMissing, "seen are arm and leg"},
		"discovery off":     {unlinkedSample(func(s *Snapshot) { s.Around.Discovery = false }), status.CausePeerMissing, "discovery is off"},
		"no multicast":      {unlinkedSample(func(s *Snapshot) { s.Around.Multicast = []string{"eth0: dropped"} }), status.CauseMulticast, "eth0: dropped"},
		"multicast blocked": {unlinkedSample(func(s *Snapshot) { s.Around.Answers = "10.0.0.1:8076" }), status.CauseMulticast, "robot answers at 10.0.0.1:8076"},
	} {
		t.Run(name, func(t *testing.T) { judge(t, Findings(c.s), c.cause, c.contains) })
	}
}

// judge checks the cause and the text of the first finding.
func judge(t *testing.T, list []Finding, cause status.Cause, contains string) {
	t.Helper()
	f := list[0]
	if f.Cause != cause {
		t.Errorf("got %+v, want %s", f, cause)
	}
	if all := strings.Join(append([]string{f.Text, f.Fix}, f.Evidence...), "\n"); !strings.Contains(all, contains) {
		t.Errorf("got\n%s\nwant it to contain %q", all, contains)
	}
	if bad := f.Cause != Well; bad && f.Fix == "" {
		t.Errorf("%s: got no fix, want one", f.Cause)
	}
	for _, f := range list {
		if f.Evidence == nil {
			t.Errorf("%+v: got null as evidence, want a list", f)
		}
	}
}

// originSample returns two seconds of a channel of this host that one PC mirrors without problems.
func originSample(change func(*Snapshot, *status.Local, *status.Subscription, *status.Link)) Snapshot {
	s := Snapshot{Host: "robot", Channel: "imu", Self: true, Apart: 2 * time.Second, File: FileFacts{There: true, Mode: "mode 0600, owner root:root", Daemon: "achbridge:ach"}}
	s.Before.Locals = []status.Local{{Channel: "imu", Seq: 5800, Exported: true}}
	s.Before.Exports = []status.Subscription{{Channel: "imu", Peer: "pc", FrameCounters: ledger.FrameCounters{Offered: 5800, Delivered: 5800}}}
	s.Before.Links = []status.Link{{Peer: "pc", State: "up", Traffic: status.Traffic{Sent: 5800, SentBytes: 580_000}}}
	c := status.Local{Channel: "imu", Seq: 6000, Exported: true}
	e := status.Subscription{Channel: "imu", Peer: "pc", Bytes: 64, FrameCounters: ledger.FrameCounters{Offered: 6000, Delivered: 6000}}
	l := status.Link{Peer: "pc", State: "up", RTTms: 10, UpS: 60, Traffic: status.Traffic{Sent: 6000, SentBytes: 600_000}}
	s.After.Host = "robot"
	if change != nil {
		change(&s, &c, &e, &l)
	}
	if c.Channel != "" {
		s.After.Locals = append(s.After.Locals, c)
	}
	if e.Channel != "" {
		s.After.Exports = append(s.After.Exports, e)
	}
	s.After.Links = append(s.After.Links, l)
	return s
}

func TestDiagnoseNamesTheCauseAtOrigin(t *testing.T) {
	type local = *status.Local
	type export = *status.Subscription
	type link = *status.Link
	mbit := 1.0
	for name, c := range map[string]struct {
		s        Snapshot
		cause    status.Cause
		contains string
	}{
		"well":         {originSample(nil), Well, "gets to the host that reads it"},
		"nobody reads": {originSample(func(s *Snapshot, c local, e export, l link) { e.Channel = "" }), Well, "nobody reads it"},
		"stopped": {originSample(func(s *Snapshot, c local, e export, l link) {
			c.Seq, e.FrameCounters = 5800, s.Before.Exports[0].FrameCounters
		}), status.CausePublisherStopped, "it stays at frame 5800 for 2 s"},
		"lock is taken": {originSample(func(s *Snapshot, c local, e export, l link) { c.Seq, s.File.Holder = 5800, "thread 9 (viewer)" }), status.CausePublisherStopped, "held by thread 9"},
		"a put hangs": {originSample(func(s *Snapshot, c local, e export, l link) {
			s.Before.Locals[0].Waking, c.Waking, c.Seq = true, true, s.Before.Locals[0].Seq
		}), status.CauseReaderKilled, "channel rm imu"},
		"puts wake readers": {originSample(func(s *Snapshot, c local, e export, l link) {
			s.Before.Locals[0].Waking, c.Waking = true, true
		}), Well, "gets to the host that reads it"},
		"a put woke readers": {originSample(func(s *Snapshot, c local, e export, l link) {
			s.Before.Locals[0].Waking, c.Seq = true, s.Before.Locals[0].Seq
		}), status.CausePublisherStopped, "it stays at frame 5800"},
		"no channel": {originSample(func(s *Snapshot, c local, e export, l link) { c.Channel, s.File.There = "", false }), status.CauseNoChannel, "channel create imu"},
		"file mode": {originSample(func(s *Snapshot, c local, e export, l link) {
			c.Cause, c.Reason = status.CauseFileMode, "no permission"
		}), status.CauseFileMode, "mode 0600, owner root:root; the daemon runs as achbridge:ach"},
		"corrupt": {originSample(func(s *Snapshot, c local, e export, l link) {
			c.Cause, c.Reason = status.CauseCorrupt, "a writer died inside put"
		}), status.CauseCorrupt, "channel rm imu"},
		"hidden": {originSample(func(s *Snapshot, c local, e export, l link) {
			e.Channel, c.Cause, c.Reason = "", status.CauseExportRule, "not exported"
			s.Rules = []config.Judgement{{Kind: "export", Result: "nobody may read it: export[0] denies it", Rule: "export[0]", From: "a.yaml:2"}}
		}), status.CauseExportRule, "export[0], a.yaml:2"},
		"a mirror that is put into here": {originSample(func(s *Snapshot, c local, e export, l link) {
			e.Channel, c.Cause, c.Reason, s.File.Mirror = "", status.CauseExportRule, "it is a mirror", true
			s.Rules = []config.Judgement{{Kind: "export", Applies: true, Result: "every host with the key may read it"}}
		}), status.CauseExportRule, "is offered to nobody: it is a mirror"},
		"pushed by a host that is gone": {originSample(func(s *Snapshot, c local, e export, l link) {
			e.Channel, c.Cause, c.Reason, c.Seq, s.File.Mirror = "", status.CauseExportRule, "it is a mirror", 5800, true
			s.After.Peers = []status.Peer{{Host: "planner", State: "dialling", Error: "peer does not answer"}}
		}), status.CausePeerMissing, "planner is not linked: peer does not answer"},
		"push refused": {originSample(func(s *Snapshot, c local, e export, l link) {
			e.Channel = ""
			s.After.Pushes = []status.Push{{Push: rule.Push{Channel: "imu", Host: "pc"}, State: "refused", Cause: status.CauseAcceptRule, Reason: "pc does not accept imu"}}
		}), status.CauseAcceptRule, "on pc: change its accept rules"},
		"push to nobody": {originSample(func(s *Snapshot, c local, e export, l link) {
			e.Channel, s.Around.Discovery = "", true
			s.After.Pushes = []status.Push{{Push: rule.Push{Channel: "imu", Host: "base"}, State: status.PushWaiting}}
		}), status.CausePeerMissing, "it is pushed to base"},
		"link too slow": {originSample(func(s *Snapshot, c local, e export, l link) {
			e.Bytes, e.Delivered, e.Superseded, l.FullS, l.PathMbit = 5000, 5840, 160, 1.9, &mbit
		}), status.CauseLinkRate, "frames waited for the link 95 % of the time"},
		"this daemon gets no processor": {originSample(func(s *Snapshot, c local, e export, l link) {
			e.Delivered, e.Superseded, l.FullS = 5840, 160, 0.1
		}), status.CauseHostBusy, "give the daemon on robot more CPU"},
		"loss": {originSample(func(s *Snapshot, c local, e export, l link) {
			l.Lost, e.Delivered, e.Lost, l.FullS = 50, 5950, 50, 1.9
		}), status.CauseLoss, "to pc loses 25 %"},
		"budget": {originSample(func(s *Snapshot, c local, e export, l link) {
			s.Before.Locals[0].Seq, c.Seq = 58, 60
			s.Before.Exports[0].FrameCounters = ledger.FrameCounters{Offered: 58, LateKept: 58}
			e.Bytes, e.FrameCounters, l.FullS, l.PathMbit = 50_000, ledger.FrameCounters{Offered: 60, LateKept: 60}, 1.2, &mbit
		}), status.CauseBudget, "takes 400 ms to send and 5.00 ms on its way"},
		"only late frames get there": {originSample(func(s *Snapshot, c local, e export, l link) {
			l.RTTms, e.ReaderCause, e.Delivered, e.LateKept = 300, status.CauseBudget, 5800, 200
		}), status.CauseBudget, "late: every frame that comes to pc is past its budget of 100 ms"},
		"cannot be put": {originSample(func(s *Snapshot, c local, e export, l link) {
			e.Delivered, e.Refused = 5800, 200
		}), status.CauseOther, "on pc: achbridge why"},
		"its mirror's lock is taken": {originSample(func(s *Snapshot, c local, e export, l link) {
			e.Delivered, e.Superseded, e.ReaderWaitS = 5800, 200, 1.9
		}), status.CauseReceiverSlow, "on pc: let the process"},
		"its mirror has no room": {originSample(func(s *Snapshot, c local, e export, l link) {
			e.Delivered, e.Refused, e.ReaderCause = 5800, 200, status.CauseShmFull
		}), status.CauseShmFull, "pc cannot put what comes of imu"},
		"too slow for its reader": {originSample(func(s *Snapshot, c local, e export, l link) {
			e.ReaderCause = status.CausePublisherSlow
		}), status.CausePublisherSlow, "the deadline of pc"},
		"clock": {originSample(func(s *Snapshot, c local, e export, l link) {
			oneWayDelay := 6.0
			e.QoS.Budget, e.QoS.Class, e.OneWayDelayMs, l.ClockUncertaintyMs = 10*time.Millisecond, rule.Command, &oneWayDelay, 5
			e.Delivered, e.Late = 5800, 200
		}), status.CauseClock, "± 5.00 ms"},
		"at rest as usual": {originSample(func(s *Snapshot, c local, e export, l link) {
			age, period, due := 4000.0, 5000.0, 0.0
			c.Seq, e.FrameCounters, e.AgeMs, e.PeriodMs, e.DueMs = 5800, s.Before.Exports[0].FrameCounters, &age, &period, &due
		}), Well, "gets to the host that reads it"},
		"stopped a moment ago": {originSample(func(s *Snapshot, c local, e export, l link) {
			due := 690.0
			c.Seq, e.Offered, e.Delivered, e.DueMs = 5930, 5930, 5930, &due
		}), status.CausePublisherStopped, "it has stopped at frame 5930"},
		"cannot be read": {originSample(func(s *Snapshot, c local, e export, l link) {
			e.Reason, e.Cause = "channel lock held by another process", status.CauseReceiverSlow
		}), status.CauseReceiverSlow, "imu cannot be read"},
	} {
		t.Run(name, func(t *testing.T) { judge(t, Findings(c.s), c.cause, c.contains) })
	}
}
