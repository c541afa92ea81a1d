package diagnose

import (
	"strings"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// achd sends no counters: the diagnosis states that only the frames that arrived are known.

func TestDiagnosisOfMirrorFromAchd(t *testing.T) {
	since := 20.0
	for name, c := range map[string]struct {
		change   func(*status.Mirror)
		cause    status.Cause
		contains string // part of text, evidence and fix
	}{
		"well": {func(*status.Mirror) {}, Well, "100 frames a second come|nothing proves who sends it|how old its frames are at the origin is not known|the counters have only the frames that came here"},
		"rests": {func(m *status.Mirror) {
			m.FrameCounters, m.Seq = ledger.FrameCounters{Offered: 5800, Delivered: 5800}, 5800
		}, Well, "the newest frame came 20.0 ms ago"},
		"stale": {func(m *status.Mirror) { m.State, m.QoS = "stale", rule.QoS{Deadline: time.Second} }, status.CausePublisherStopped, "within its deadline of 1 s|on robot, port 8076"},
		"no achd": {func(m *status.Mirror) {
			m.State, m.Cause, m.Reason = "waiting", status.CausePeerSilent, "achd there: connection refused"
		}, status.CausePeerSilent, "does not come: achd there: connection refused|have achd listen there"},
		"no channel": {func(m *status.Mirror) {
			m.State, m.Cause, m.Reason = "waiting", status.CauseNoChannel, "achd there: none"
		}, status.CauseNoChannel, "start what makes the channel"},
		"not served": {func(m *status.Mirror) {
			m.State, m.Cause, m.Reason = "waiting", status.CauseExportRule, "achd there: no"
		}, status.CauseExportRule, "section achd"},
		"no room": {func(m *status.Mirror) { m.State, m.Cause, m.Reason = "refused", status.CauseShmFull, "no room" }, status.CauseShmFull, "there is no mirror of achd://robot/imu: no room"},
	} {
		s := sample(func(s *Snapshot, m *status.Mirror, l *status.Link) {
			s.Host, s.Before.Links, s.Offers, s.Age, l.Peer = "achd://robot", nil, nil, nil, ""
			s.Before.Mirrors[0].Host = s.Host
			m.Host, m.Unauthenticated, m.AgeMs, m.DueMs, m.OneWayDelayMs, m.SinceArrivalMs = s.Host, true, nil, nil, nil, &since
			c.change(m)
		})
		f := Findings(s)[0]
		all := strings.Join(append([]string{f.Text, f.Fix}, f.Evidence...), "|")
		if f.Cause != c.cause {
			t.Errorf("%s: got %s, want %s: %s", name, f.Cause, c.cause, all)
		}
		for part := range strings.SplitSeq(c.contains, "|") {
			if !strings.Contains(all, part) {
				t.Errorf("%s: got %q, want %q in it", name, all, part)
			}
		}
		problems := Problems(Host{Before: s.Before, After: s.After, Apart: s.Apart})
		if (len(problems) == 0) != (c.cause == Well) {
			t.Errorf("%s: got troubles %+v", name, problems)
		}
	}
	if f := Findings(Snapshot{Host: "achd://robot", Channel: "imu"}); len(f) != 1 || f[0].Fix != "achbridge mirror achd://robot/imu" {
		t.Errorf("without a rule: got %+v", f)
	}
}
