package diagnose

import (
	"strings"
	"testing"

	"achbridge/bridge/status"
)

// waited sets the shares of the time that the daemons of both hosts waited for a CPU.
func waited(s *Snapshot, l *status.Link, origin, reader float64) {
	if l.Inbound == nil {
		l.Inbound, s.Before.Links[0].Inbound = &status.InboundPath{AtS: 12}, &status.InboundPath{AtS: 10}
	}
	l.Inbound.CPUWait, s.After.CPUWait = &origin, &reader
}

// full makes the mirror lose most frames, and makes the origin report that the link was full 90 % of the time.

func full(s *Snapshot, m *status.Mirror, l *status.Link) {
	m.Bytes, m.Delivered, m.Superseded = 5000, 5840, 160
	s.Before.Links[0].Inbound = &status.InboundPath{AtS: 10}
	l.Inbound = &status.InboundPath{AtS: 12, FullS: 1.8}
}

func TestCPUWaitOfDaemonIsDiagnosedAsBusyHost(t *testing.T) {
	type mirror = *status.Mirror
	type link = *status.Link
	for name, c := range map[string]struct {
		change         func(*Snapshot, mirror, link)
		origin, reader float64
		cause          status.Cause
		contains       string
	}{
		"a full link, an idle daemon":   {full, 0.05, 0.05, status.CauseLinkRate, "waited for the link 90 % of the time"},
		"a full link, a busy host":      {full, 0.25, 0.25, status.CauseLinkRate, "waited for the link"},
		"a full link, a daemon starves": {full, 0.85, 0.05, status.CauseHostBusy, "its threads waited for a CPU 85 % of the time; "},
		"its cure":                      {full, 0.85, 0.05, status.CauseHostBusy, "give the daemon on robot more"},
		"the reader's daemon starves":   {full, 0.05, 0.95, status.CauseHostBusy, "the daemon on pc gets too little CPU time"},
		"both do, the reader's more":    {full, 0.75, 0.95, status.CauseHostBusy, "waited for a CPU 95 %"},
		"all comes in time":             {func(*Snapshot, mirror, link) {}, 0.95, 0.95, Well, "as fresh"},
		"late frames": {func(s *Snapshot, m mirror, l link) {
			oneWayDelay := 150.0
			m.LateS, m.OneWayDelayMs, l.RTTms, m.Delivered, m.LateKept = 12, &oneWayDelay, 300, 5800, 200
		}, 0.95, 0, status.CauseHostBusy, "late: every frame"},
		"the clock is not known either": {func(s *Snapshot, m mirror, l link) {
			full(s, m, l)
			l.ClockUncertaintyMs = 400
		}, 0.95, 0, status.CauseHostBusy, "its threads"},
		"the clock alone": {func(s *Snapshot, m mirror, l link) { l.ClockUncertaintyMs = 400 }, 0.95, 0, status.CauseClock, "± 400 ms only"},
		"loss": {func(s *Snapshot, m mirror, l link) {
			full(s, m, l)
			l.Inbound.Sent, l.Inbound.Lost, m.Delivered, m.Lost = 100, 30, 5850, 60
		}, 0.95, 0, status.CauseLoss, "loses 30 %"},
		"gaps": {func(s *Snapshot, m mirror, l link) { s.Age.OverBudget = 0.3 }, 0.95, 0, status.CauseHostBusy, "its threads"},
	} {
		s := sample(func(s *Snapshot, m mirror, l link) {
			c.change(s, m, l)
			waited(s, l, c.origin, c.reader)
		})
		f := Findings(s)[0]
		if text := strings.Join(append([]string{f.Text, f.Fix}, f.Evidence...), "; "); f.Cause != c.cause || !strings.Contains(text, c.contains) {
			t.Errorf("%s: got %s: %s; want %s with %q", name, f.Cause, text, c.cause, c.contains)
		}
	}
}
