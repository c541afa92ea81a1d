package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"achbridge/bridge"
)

// ages plays a link that sends the newest frame whenever it is free, and returns
// the mean age in the mirror and the mean of its peaks.
func ages(d demand) (mean, peak float64) {
	T, S, P := 1/d.hz, d.sending().Seconds(), d.delay.Seconds()
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

func TestBestAgeIsThatOfALinkThatSendsTheNewest(t *testing.T) {
	for _, d := range []demand{
		{bytes: 5_000_000, hz: 30, rate: 180e6},
		{bytes: 5_000_000, hz: 30, rate: 180e6, delay: 40 * time.Millisecond},
		{bytes: 100_000, hz: 10, rate: 1.3e6, delay: 5 * time.Millisecond},
		{bytes: 1000, hz: 100, rate: 10e6, delay: 10 * time.Millisecond},
		{bytes: 1000, hz: 1000, rate: 1.23e6},
	} {
		mean, peak := d.best()
		realMean, realPeak := ages(d)
		slack := 0.5/d.hz + 1e-4 // the formulas are means over how frames and sending meet
		if math.Abs(mean.Seconds()-realMean) > slack || math.Abs(peak.Seconds()-realPeak) > slack {
			t.Errorf("%+v: got mean %v, peak %v, want %.1f ms, %.1f ms within %.1f ms", d, mean, peak, realMean*1e3, realPeak*1e3, slack*1e3)
		}
	}
}

func TestBudgetThatCannotHoldIsTold(t *testing.T) {
	d := demand{what: "camera for pc", bytes: 5_000_000, hz: 30, budget: 50 * time.Millisecond, rate: 180e6}
	want := "camera for pc: budget 50ms cannot hold: a frame of 4.77 MiB takes 222 ms at 180 Mbit/s; " +
		"at best its age is 350 ms on the mean and 461 ms at its peak, with 4.5 of its 30 frames a second"
	if got := d.problem(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, fits := range []demand{
		{bytes: 5_000_000, hz: 30, budget: 230 * time.Millisecond, rate: 180e6}, // the newest, now and then, in time
		{bytes: 5_000_000, hz: 30, budget: time.Millisecond},                    // the rate is not known
		{bytes: 0, hz: 30, budget: time.Millisecond, rate: 1},
	} {
		if got := fits.problem(); got != "" {
			t.Errorf("%+v: got %q, want no problem", fits, got)
		}
	}
	d.every, d.budget = true, time.Second
	if got := d.problem(); !strings.Contains(got, "mode every cannot keep up") {
		t.Errorf("got %q, want that mode every cannot keep up", got)
	}
}

func TestOnlyLinksThatWereMeasuredAndChannelsThatMoveAreJudged(t *testing.T) {
	mbit := 180.0
	status := func(offered uint64, path *float64) bridge.Status {
		return bridge.Status{
			Links:   []bridge.LinkStatus{{Peer: "pc", RTTms: 20, PathMbit: path}},
			Exports: []bridge.ExportStatus{{Channel: "camera", Peer: "pc", Bytes: 5_000_000, Accounts: bridge.Accounts{Offered: offered}}},
		}
	}
	for _, c := range []struct {
		after uint64
		path  *float64
		want  bool
	}{{60, &mbit, true}, {60, nil, false}, {0, &mbit, false}} {
		list := demandsOf(status(0, c.path), status(c.after, c.path), 2*time.Second, 0)
		if got := len(list) == 1 && list[0].problem() != ""; got != c.want {
			t.Errorf("%+v: got problem %v, want %v: %+v", c, got, c.want, list)
		}
		if c.want && (list[0].hz != 30 || list[0].delay != 10*time.Millisecond) {
			t.Errorf("got %+v, want 30 Hz and 10 ms", list[0])
		}
	}
}

func TestDaemonSaysOnceWhatGoesOn(t *testing.T) {
	bad := demand{what: "a", bytes: 1000, hz: 1, budget: time.Millisecond, rate: 1000}
	good := bad
	good.rate = 1e9
	seen, said := map[string]int{}, 0
	for _, d := range []demand{bad, bad, good, bad, bad, bad, bad, good, bad, bad, bad, bad} {
		said += len(unfit(seen, []demand{d}))
	}
	if said != 1 {
		t.Errorf("said %d times, want once, after %d looks in a row", said, unfitFor)
	}
}

func TestBitRates(t *testing.T) {
	for text, want := range map[string]bitRate{"180Mbit": 180e6, "20mbit": 20e6, "1.5Gbit/s": 1.5e9, "64kbit": 64e3, "9600bit": 9600} {
		var r bitRate
		if err := r.Set(text); err != nil || r != want {
			t.Errorf("%s: got %v, %v, want %v", text, float64(r), err, float64(want))
		}
	}
	for _, text := range []string{"", "20", "20MB", "Mbit", "-1Mbit", "0bit", "NaNMbit", "1e300Gbit", "20Mibit"} {
		var r bitRate
		if err := r.Set(text); err == nil {
			t.Errorf("%q: got %v, want it refused", text, float64(r))
		}
	}
}
