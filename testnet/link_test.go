package testnet

import (
	"math"
	"testing"
	"time"
)

const ms = time.Millisecond

func params(t *testing.T, text string) Params {
	t.Helper()
	p, err := ParseParams(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// arrivalTimes receives all packets until the link is empty.
func arrivalTimes(l *Link[int]) (at []time.Duration, payloads []int) {
	for {
		next, ok := l.Next()
		if !ok {
			return at, payloads
		}
		if p, ok := l.Receive(next); ok {
			at, payloads = append(at, next), append(payloads, p)
		}
	}
}

func TestPerfectLinkDeliversAtOnce(t *testing.T) {
	l := NewLink[int](1, Params{})
	l.Send(5*ms, 1500, 7)
	if got, ok := l.Receive(5 * ms); !ok || got != 7 {
		t.Fatalf("got %v %v, want 7 at once", got, ok)
	}
}

func TestLinkAppliesRateAndDelay(t *testing.T) {
	l := NewLink[int](1, params(t, "delay=10ms,rate=1mbit"))
	for i := range 3 {
		sent := l.Send(0, 1000, i)
		if want := time.Duration(i+1)*8*ms + 10*ms; sent.Arrives != want {
			t.Errorf("packet %d: got outlook %v, want %v", i, sent.Arrives, want)
		}
	}
	if _, ok := l.Receive(18*ms - 1); ok {
		t.Error("got a packet 1 ns early")
	}
	at, _ := arrivalTimes(l)
	for i, want := range []time.Duration{18 * ms, 26 * ms, 34 * ms} {
		if at[i] != want {
			t.Errorf("packet %d: got %v, want %v", i, at[i], want)
		}
	}
	if got := l.Free(20 * ms); got != 24*ms {
		t.Errorf("got transmitter free at %v, want 24ms", got)
	}
}

func TestQueueDropsTailExceptPacketInTransmission(t *testing.T) {
	l := NewLink[int](1, params(t, "rate=1mbit,queue=2000"))
	var outcomes []Outcome
	for i := range 5 {
		outcomes = append(outcomes, l.Send(0, 1000, i).Outcome)
	}
	want := []Outcome{Arrives, Arrives, Arrives, Overflow, Overflow}
	for i := range want {
		if outcomes[i] != want[i] {
			t.Errorf("packet %d: got %v, want %v", i, outcomes[i], want[i])
		}
	}
	if got := l.Send(8*ms, 1000, 5).Outcome; got != Arrives {
		t.Errorf("after one packet left: got %v, want arrives", got)
	}
	if c := l.Counts(); c.Overflow != 2 || c.Sent != 6 {
		t.Errorf("got %+v, want 6 sent, 2 overflowed", c)
	}
}

// lossRuns sends n packets and returns the share of lost packets and the mean length of a burst.
func lossRuns(p Params, n int) (share, run float64) {
	l := NewLink[int](42, p)
	lost, runs, before := 0, 0, false
	for i := range n {
		gone := l.Send(0, 100, i).Outcome == Lost
		if gone {
			lost++
			if !before {
				runs++
			}
		}
		before = gone
	}
	return float64(lost) / float64(n), float64(lost) / float64(runs)
}

func TestLinkAppliesLossAndBurst(t *testing.T) {
	for text, want := range map[string]struct{ share, run float64 }{
		"loss=1%":           {0.01, 1.0101},
		"loss=30%":          {0.3, 1 / 0.7},
		"loss=1%,burst=3":   {0.01, 3},
		"loss=20%,burst=10": {0.2, 10},
		"loss=10%,burst=1":  {0.1, 1},
		"loss=100%":         {1, 400000},
	} {
		share, run := lossRuns(params(t, text), 400000)
		if math.Abs(share-want.share) > 0.06*want.share || math.Abs(run-want.run) > 0.06*want.run {
			t.Errorf("%s: got share %.4f, run %.3f, want %.4f, %.3f", text, share, run, want.share, want.run)
		}
	}
}

func TestLostPacketTakesTransmissionTime(t *testing.T) {
	l := NewLink[int](1, params(t, "rate=1mbit,loss=100%"))
	l.Send(0, 1000, 0)
	l.Set(0, params(t, "rate=1mbit"))
	l.Send(0, 1000, 1)
	if at, got := arrivalTimes(l); len(at) != 1 || at[0] != 16*ms || got[0] != 1 {
		t.Errorf("got %v at %v, want packet 1 at 16ms", got, at)
	}
}

func TestLinkDuplicates(t *testing.T) {
	l := NewLink[int](1, params(t, "dup=25%,delay=1ms,jitter=1ms"))
	for i := range 10000 {
		l.Send(0, 100, i)
	}
	at, _ := arrivalTimes(l)
	c := l.Counts()
	if len(at) != 10000+int(c.Duplicated) || c.Duplicated < 2300 || c.Duplicated > 2700 || c.Delivered != 10000 {
		t.Errorf("got %d arrivals, %+v, want 10000 and about 2500 twice", len(at), c)
	}
}

func TestOnlyReorderChangesOrder(t *testing.T) {
	for text, want := range map[string]bool{
		"delay=10ms,jitter=10ms": false, "delay=10ms,rate=10mbit,dup=10%,loss=10%": false, "delay=10ms,reorder=5%": true, "reorder=5%": true,
	} {
		l := NewLink[int](3, params(t, text))
		for i := range 2000 {
			l.Send(time.Duration(i)*100*time.Microsecond, 100, i)
		}
		_, order := arrivalTimes(l)
		overtaken := 0
		for i := 1; i < len(order); i++ {
			if order[i] < order[i-1] {
				overtaken++
			}
		}
		if (overtaken > 0) != want || overtaken > 150 {
			t.Errorf("%s: got %d packets overtaken, want some %v", text, overtaken, want)
		}
	}
}

func TestJitterStaysWithinItsBound(t *testing.T) {
	l := NewLink[int](3, params(t, "delay=10ms,jitter=4ms"))
	low, high := time.Hour, time.Duration(0)
	for i := range 5000 {
		now := time.Duration(i) * 10 * ms
		d := l.Send(now, 100, i).Arrives - now
		low, high = min(low, d), max(high, d)
	}
	if low < 10*ms || low > 10*ms+50*time.Microsecond || high > 14*ms || high < 14*ms-50*time.Microsecond {
		t.Errorf("got %v to %v, want 10ms to 14ms", low, high)
	}
}

func TestCutLosesPacketsInFlightAndSent(t *testing.T) {
	l := NewLink[int](1, params(t, "delay=10ms,rate=1mbit"))
	l.Send(0, 1000, 0)
	l.Send(0, 1000, 1)
	l.Send(0, 1000, 2)
	l.Set(20*ms, params(t, "cut"))
	if got := l.Send(21*ms, 1000, 3).Outcome; got != CutOff {
		t.Errorf("got %v, want cut off", got)
	}
	l.Set(22*ms, params(t, "delay=10ms,rate=1mbit"))
	l.Send(22*ms, 1000, 4)
	at, got := arrivalTimes(l)
	if len(got) != 2 || got[0] != 0 || at[0] != 18*ms || got[1] != 4 || at[1] != 40*ms {
		t.Errorf("got %v at %v, want 0 at 18ms (it had arrived) and 4 at 40ms", got, at)
	}
	if c := l.Counts(); c.CutOff != 3 || c.Sent != c.Delivered+c.CutOff {
		t.Errorf("got %+v, want 3 cut off and the sum closed", c)
	}
}

func TestRateChangeAppliesToQueue(t *testing.T) {
	l := NewLink[int](1, params(t, "delay=1ms,rate=1mbit"))
	for i := range 3 {
		l.Send(0, 1000, i)
	}
	// At 12 ms packet 0 is transmitted and packet 1 half transmitted: 4 ms remain at the old rate.
	l.Set(12*ms, params(t, "delay=1ms,rate=2mbit"))
	at, _ := arrivalTimes(l)
	for i, want := range []time.Duration{9 * ms, 15 * ms, 19 * ms} {
		if at[i] != want {
			t.Errorf("packet %d: got %v, want %v", i, at[i], want)
		}
	}
}

func TestDelayChangeSparesPacketsOnTheWire(t *testing.T) {
	l := NewLink[int](1, params(t, "delay=100ms"))
	l.Send(0, 1000, 0)
	l.Set(1*ms, params(t, "delay=10ms"))
	l.Send(2*ms, 1000, 1)
	at, order := arrivalTimes(l)
	if order[0] != 1 || at[0] != 12*ms || at[1] != 100*ms {
		t.Errorf("got %v at %v, want 1 at 12ms, 0 at 100ms", order, at)
	}
}

func TestPacketsAboveMTUAreDropped(t *testing.T) {
	l := NewLink[int](1, params(t, "mtu=1280"))
	if a, b := l.Send(0, 1280, 0).Outcome, l.Send(0, 1281, 1).Outcome; a != Arrives || b != TooBig {
		t.Errorf("got %v and %v, want arrives and too big", a, b)
	}
}
