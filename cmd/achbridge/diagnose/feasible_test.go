package diagnose

import (
	"math"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/status"
)

// ages simulates a link that sends the newest frame whenever the link is free. It returns
// the mean age of the mirror and the mean of the age's peaks.
func ages(d Demand) (mean, peak float64) {
	T, S, P := 1/d.Hz, d.sending().Seconds(), d.delay.Seconds()
	at, had, first, area, peaks, count := 0.0, -1.0, 0.0, 0.0, 0.0, 0
	last := 0.0 // when the mirror last changed
	for range 20_000 {
		taken := math.Floor(at/T+1e-9) * T // capture time of the newest frame
		if taken <= had {
			at = had + T
			continue
		}
		at += S
		now := at + P
		if count > 0 {
			area += (now - last) * ((last - had) + (now - had)) / 2
			peaks += now - had
		} else {
			first = now
		}
		had, last = taken, now
		count++
	}
	return area / (last - first), peaks / float64(count-1)
}

func TestBestAgeMatchesSimulatedLink(t *testing.T) {
	for _, d := range []Demand{
		{Bytes: 5_000_000, Hz: 30, Rate: 180e6},
		{Bytes: 5_000_000, Hz: 30, Rate: 180e6, delay: 40 * time.Millisecond},
		{Bytes: 100_000, Hz: 10, Rate: 1.3e6, delay: 5 * time.Millisecond},
		{Bytes: 1000, Hz: 100, Rate: 10e6, delay: 10 * time.Millisecond},
		{Bytes: 1000, Hz: 1000, Rate: 1.23e6},
	} {
		mean, peak := d.best()
		realMean, realPeak := ages(d)
		slack := 0.5/d.Hz + 1e-4 // the formulas are means over all phases between captures and sending
		if math.Abs(mean.Seconds()-realMean) > slack || math.Abs(peak.Seconds()-realPeak) > slack {
			t.Errorf("%+v: got mean %v, peak %v, want %.1f ms, %.1f ms within %.1f ms", d, mean, peak, realMean*1e3, realPeak*1e3, slack*1e3)
		}
	}
}

func TestInfeasibleBudgetIsReported(t *testing.T) {
	d := Demand{What: "camera for pc", Bytes: 5_000_000, Hz: 30, Budget: 50 * time.Millisecond, Rate: 180e6}
	want := "camera for pc: budget 50 ms cannot hold: a frame of 4.77 MiB takes 222 ms at 180 Mbit/s; " +
		"at best its age is 350 ms on average and 461 ms at its peak, with 4.5 of its 30 frames a second"
	if got := d.Problem(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, fits := range []Demand{
		{Bytes: 5_000_000, Hz: 30, Budget: 230 * time.Millisecond, Rate: 180e6}, // some frames are in time
		{Bytes: 5_000_000, Hz: 30, Budget: time.Millisecond},                    // the rate is not known
		{Bytes: 0, Hz: 30, Budget: time.Millisecond, Rate: 1},
	} {
		if got := fits.Problem(); got != "" {
			t.Errorf("%+v: got %q, want no problem", fits, got)
		}
	}
	d.Every, d.Budget = true, time.Second
	if got := d.Problem(); !strings.Contains(got, "mode every cannot keep up") {
		t.Errorf("got %q, want that mode every cannot keep up", got)
	}
}

func TestDemandsNeedMeasuredLinkAndActiveChannel(t *testing.T) {
	mbit := 180.0
	shown := func(offered uint64, path *float64) status.Report {
		return status.Report{
			Links:   []status.Link{{Peer: "pc", RTTms: 20, PathMbit: path}},
			Exports: []status.Subscription{{Channel: "camera", Peer: "pc", Bytes: 5_000_000, FrameCounters: ledger.FrameCounters{Offered: offered}}},
		}
	}
	for _, c := range []struct {
		after uint64
		path  *float64
		want  bool
	}{{60, &mbit, true}, {60, nil, false}, {0, &mbit, false}} {
		list := DemandsOf(shown(0, c.path), shown(c.after, c.path), 2*time.Second, 0)
		if got := len(list) == 1 && list[0].Problem() != ""; got != c.want {
			t.Errorf("%+v: got problem %v, want %v: %+v", c, got, c.want, list)
		}
		if c.want && (list[0].Hz != 30 || list[0].delay != 10*time.Millisecond) {
			t.Errorf("got %+v, want 30 Hz and 10 ms", list[0])
		}
	}
}

func TestUnfitReportsEachDemandOnce(t *testing.T) {
	bad := Demand{What: "a", Bytes: 1000, Hz: 1, Budget: time.Millisecond, Rate: 1000}
	good := bad
	good.Rate = 1e9
	seen, said := map[string]int{}, 0
	for _, d := range []Demand{bad, bad, good, bad, bad, bad, bad, good, bad, bad, bad, bad} {
		said += len(Unfit(seen, []Demand{d}))
	}
	if said != 1 {
		t.Errorf("got %d reports, want 1, after %d samples in a row", said, unfitFor)
	}
}
