package testnet

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// saturate keeps a few packets of 1200 bytes waiting on each link for length, and
// returns the packets that arrived on each.
func saturate(links []*Link[int], length time.Duration) (got [][]int) {
	got, sent := make([][]int, len(links)), make([]int, len(links))
	now := time.Duration(0)
	for now < length {
		for i, l := range links {
			for n, ok := l.Receive(now); ok; n, ok = l.Receive(now) {
				got[i] = append(got[i], n)
			}
			for c := l.Counts(); c.Sent-c.Delivered-c.Lost < 200; c = l.Counts() {
				l.Send(now, 1200, sent[i])
				sent[i]++
			}
		}
		next := length
		for _, l := range links {
			if at, ok := l.Next(); ok {
				next = min(next, max(at, now+1))
			}
		}
		now = next
	}
	return got
}

func TestWifiKeepsOrder(t *testing.T) {
	for _, model := range WifiModels() {
		l := NewLink[int](1, params(t, "wifi="+model+",delay=1ms"))
		got := saturate([]*Link[int]{l}, 20*time.Second)[0]
		for _, order := arrivalTimes(l); len(order) > 0; order = nil {
			got = append(got, order...)
		}
		c := l.Counts()
		if !slices.IsSorted(got) || c.Sent != c.Delivered+c.Lost || int(c.Delivered) != len(got) || c.Lost > c.Sent/100 {
			t.Errorf("%s: got %d packets, %+v, want all in order but few that were lost", model, len(got), c)
		}
	}
}

// The expected rates follow from the models' parameters.
func TestWifiModelRates(t *testing.T) {
	for model, want := range map[string]float64{"good": 41, "busy": 12.4, "edge": 8.7} {
		sum := 0.0
		for seed := range uint64(4) {
			l := NewLink[int](seed, params(t, "wifi="+model))
			sum += float64(len(saturate([]*Link[int]{l}, 30*time.Second)[0])) * 1200 * 8 / 30e6 / 4
		}
		if math.Abs(sum-want) > 0.1*want {
			t.Errorf("%s: got %.1f Mbit/s, want about %v", model, sum, want)
		}
	}
}

func TestStationsShareAirtimeEqually(t *testing.T) {
	for n := 2; n <= 4; n++ {
		airs := NewAirs(7)
		var links []*Link[int]
		for i := range n {
			links = append(links, NewLinkIn[int](airs, uint64(i), params(t, "wifi=good,air=hall")))
		}
		alone := len(saturate([]*Link[int]{NewLinkIn[int](NewAirs(7), 0, params(t, "wifi=good,air=hall"))}, 20*time.Second)[0])
		sum, least := 0, alone
		for _, got := range saturate(links, 20*time.Second) {
			sum, least = sum+len(got), min(least, len(got))
		}
		if sum > alone*11/10 || sum < alone*9/10 || least < sum/n*95/100 {
			t.Errorf("%d stations: got %d packets in all, the least %d; alone %d: want as many together, in equal shares", n, sum, least, alone)
		}
	}
}

func TestAirsAreIndependent(t *testing.T) {
	airs := NewAirs(7)
	links := []*Link[int]{NewLinkIn[int](airs, 1, params(t, "wifi=good,air=hall")), NewLinkIn[int](airs, 2, params(t, "wifi=good,air=yard"))}
	for i, got := range saturate(links, 20*time.Second) {
		if rate := float64(len(got)) * 1200 * 8 / 20e6; rate < 25 {
			t.Errorf("link %d: got %.1f Mbit/s, want all that wifi=good carries", i, rate)
		}
	}
}

// Two links share one air. Their counts must not depend on which of them is polled first.
func TestAirIgnoresPollingOrder(t *testing.T) {
	run := func(first, second int) (all []string) {
		airs := NewAirs(3)
		links := []*Link[int]{NewLinkIn[int](airs, 1, params(t, "wifi=busy,air=a")), NewLinkIn[int](airs, 2, params(t, "wifi=busy,air=a"))}
		for i := range 300 {
			now := time.Duration(i) * 20 * ms // so long that there are many transmissions in between
			links[0].Send(now, 1200, i)
			links[1].Send(now, 1200, i)
			for _, l := range []int{first, second} {
				links[l].Next()
				links[l].Receive(now)
			}
			all = append(all, fmt.Sprint(links[0].Counts(), links[1].Counts()))
		}
		return all
	}
	if a, b := run(0, 1), run(1, 0); !slices.Equal(a, b) {
		t.Error("got other counts when the second link was polled first")
	}
}

func TestFillChoosesPacketsAtAggregation(t *testing.T) {
	l := NewLink[time.Duration](5, params(t, "wifi=good"))
	l.Fill(func(now time.Duration, room int) (int, time.Duration, bool) { return 1200, now, room >= 1200 })
	l.Want(0)
	for last := time.Duration(-1); last < time.Second; {
		at, ok := l.Next()
		if !ok {
			t.Fatal("got an end, want it to go on")
		}
		made, ok := l.Receive(at)
		if ok && made < last {
			t.Fatalf("got what was made at %v after %v", made, last)
		}
		if ok {
			last = made
		}
	}
}

func TestSameSeedGivesSameAir(t *testing.T) {
	run := func(seed uint64) int {
		return len(saturate([]*Link[int]{NewLink[int](seed, params(t, "wifi=edge"))}, 5*time.Second)[0])
	}
	if a, b, c := run(1), run(1), run(2); a != b || a == c {
		t.Errorf("got %d, %d packets from one seed and %d from another, want the first two equal alone", a, b, c)
	}
}
