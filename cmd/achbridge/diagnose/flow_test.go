package diagnose

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

func TestFramesThatFitAreNoted(t *testing.T) {
	s := sample(func(_ *Snapshot, m *status.Mirror, _ *status.Link) {
		m.Delivered, m.RateLimited, m.QoS = 5810, 190, rule.QoS{Fit: rule.FitRate}
	})
	list := Findings(s)
	if len(list) != 2 || list[0].Cause != Well || list[1].Text != "robot.imu: 5 of 100 a second fit in 100 ms" || list[1].Cure != "" {
		t.Errorf("got %+v, want that all is well, and how many frames fit", list)
	}
}

func TestFitTextTellsWhatFitHasComeTo(t *testing.T) {
	six, thirty := 6.0, 30.0
	for want, e := range map[string]status.Subscription{
		"6 of 30 a second fit in 200 ms":    {QoS: rule.QoS{Fit: rule.FitRate, Budget: 200 * time.Millisecond}, Fit: &status.Fit{FitHz: &six, PutHz: &thirty}},
		"compressed more, to fit in 100 ms": {QoS: rule.QoS{Fit: rule.FitSize}, Fit: &status.Fit{Stronger: true, PutHz: &thirty}},
	} {
		if got := FitText(e); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for what, e := range map[string]status.Subscription{
		"fit drop":         {},
		"no limit":         {QoS: rule.QoS{Fit: rule.FitRate}, Fit: &status.Fit{PutHz: &thirty}},
		"a limit of more":  {QoS: rule.QoS{Fit: rule.FitRate}, Fit: &status.Fit{FitHz: &thirty, PutHz: &six}},
		"nothing stronger": {QoS: rule.QoS{Fit: rule.FitSize}, Fit: &status.Fit{PutHz: &thirty}},
	} {
		if got := FitText(e); got != "" {
			t.Errorf("%s: got %q, want nothing", what, got)
		}
	}
}

func TestFramesThatTheLinkHadRoomForAreANoteWithTheirCause(t *testing.T) {
	for name, c := range map[string]struct {
		hz, spared uint64
		want       status.Cause
	}{
		"none":          {1000, 0, ""},
		"few":           {1000, 9, ""},
		"busy host":     {1000, 50, status.CauseHostBusy},
		"looks too few": {4000, 800, status.CauseSeldomWatched},
	} {
		f := flow{what: "imu", origin: "robot", to: "to pc", s: 1, hz: float64(c.hz), spared: c.spared}
		f.frames.Offered, f.frames.Delivered, f.frames.Superseded, f.qos.Budget = c.hz, c.hz-c.spared, c.spared, time.Second
		got := status.Cause("")
		for _, n := range f.notes(Well) {
			got = n.Cause
			if !strings.Contains(n.Text, fmt.Sprintf("%d of %d frames", c.spared, c.hz)) || n.Cure != "" {
				t.Errorf("%s: got %+v, want the number of frames and no cure", name, n)
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
