package testnet

import (
	"slices"
	"testing"
	"time"
)

func TestStallPausesTransmission(t *testing.T) {
	l := NewLink[int](1, params(t, "rate=1mbit,stall=5ms/25ms"))
	var got []time.Duration
	for i := range 4 {
		got = append(got, l.Send(0, 1000, i).Departs) // 8 ms each
	}
	// The first is sent from 5 ms on. The third is half transmitted at 25 ms.
	if want := []time.Duration{13 * ms, 21 * ms, 34 * ms, 42 * ms}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for now, want := range map[time.Duration]time.Duration{42 * ms: 42 * ms, 52 * ms: 55 * ms} {
		if got := l.Free(now); got != want {
			t.Errorf("at %v: got a free transmitter at %v, want %v", now, got, want)
		}
	}
}

func TestStallReducesRateByItsShare(t *testing.T) {
	l := NewLink[int](1, params(t, "rate=10mbit,stall=5ms/25ms"))
	for i := range 1000 {
		l.Send(0, 1000, i)
	}
	at, order := arrivalTimes(l)
	if got := at[999]; got != time.Second || !slices.IsSorted(order) {
		t.Errorf("got 8 Mbit of 10 Mbit/s with 4/5 of the time after %v, want 1s, in order", got)
	}
}

func TestFadeSlowsPacketInTransmission(t *testing.T) {
	l := NewLink[int](1, params(t, "rate=8mbit,fade=20s/10s/8kbit"))
	now := 10*time.Second - 500*time.Microsecond
	if got, want := l.Send(now, 1000, 0).Departs, 10*time.Second+500*ms; got != want {
		t.Errorf("half out when the fade begins: got %v, want %v", got, want)
	}
	if got, want := l.Send(19500*ms, 1000, 1).Departs, 20*time.Second+500*time.Microsecond; got != want {
		t.Errorf("half out when it ends: got %v, want %v", got, want)
	}
}

func TestStallDelaysWaitingPackets(t *testing.T) {
	l := NewLink[int](1, params(t, "rate=1mbit"))
	for i := range 2 {
		l.Send(0, 1000, i)
	}
	l.Set(4*ms, params(t, "rate=1mbit,stall=6ms/100ms"))
	l.Set(7*ms, params(t, "rate=2mbit,stall=6ms/100ms"))
	at, _ := arrivalTimes(l)
	// At 4 ms half is transmitted, and 5/8 at 7 ms. The rest takes 1.5 ms at the new rate.
	if want := []time.Duration{8500 * time.Microsecond, 12500 * time.Microsecond}; !slices.Equal(at, want) {
		t.Errorf("got %v, want %v", at, want)
	}
}
