package ledger

import (
	"reflect"
	"testing"

	"achbridge/wire"
)

// numbered returns counters with a different value each.
func numbered() (a FrameCounters) {
	for i, count := range a.each() {
		*count = uint64(1 + i)
	}
	return a
}

func TestEveryCounterIsIncluded(t *testing.T) {
	a := numbered()
	if v := reflect.ValueOf(a); v.NumField() != len(a.each()) {
		t.Fatalf("there are %d counters, and each returns %d", v.NumField(), len(a.each()))
	}
	sum := a.plus(a)
	for i, count := range sum.each() {
		if *count != uint64(2*(1+i)) {
			t.Errorf("counter %d: got %d, want %d", i, *count, 2*(1+i))
		}
	}
	if got := FromWire(a.ToWire(1)); got != a {
		t.Errorf("through a message: got %+v, want %+v", got, a)
	}
	if w := a.ToWire(1); w == (wire.FrameCounters{ID: 1}) || a.Most() != uint64(len(a.each())) {
		t.Errorf("got %+v, most %d", w, a.Most())
	}
	var outcomes uint64
	for _, f := range a.Outcomes() {
		outcomes += f.Count
	}
	if outcomes != a.Settled() {
		t.Errorf("the fates add up to %d, want %d", outcomes, a.Settled())
	}
}

func TestResetCountersGrowFromZero(t *testing.T) {
	before := FrameCounters{Offered: 10, Delivered: 8, Lost: 2}
	for _, c := range []struct{ now, want FrameCounters }{
		{FrameCounters{Offered: 15, Delivered: 13, Lost: 1, InFlight: 1}, FrameCounters{Offered: 5, Delivered: 5}},
		{FrameCounters{Offered: 4, Delivered: 4}, FrameCounters{Offered: 4, Delivered: 4}},
	} {
		if got := c.now.GrownBy(before); got != c.want {
			t.Errorf("%+v: got %+v, want %+v", c.now, got, c.want)
		}
	}
}

// The network delayed a frame until the origin had counted it as lost; then the frame arrived. No other frame
// was put. See TestFrameCountersAddUp/sparse_on_a_bad_link.
func TestLostThenReceivedFrameIsCountedOnce(t *testing.T) {
	reported := FrameCounters{Offered: 171, Delivered: 150, Expired: 3, Lost: 18}
	for _, c := range []struct {
		name  string
		count FrameCounters
		put   uint64
		want  FrameCounters
	}{
		{"nothing came", FrameCounters{}, 5, reported},
		{"one that was given up", FrameCounters{LateKept: 1}, 0, FrameCounters{Offered: 171, Delivered: 150, LateKept: 1, Expired: 3, Lost: 17}},
		{"more than were lost", FrameCounters{Superseded: 20}, 0, FrameCounters{Offered: 171, Delivered: 150, Superseded: 20, Expired: 1}},
		{"a new one", FrameCounters{Delivered: 1}, 1, FrameCounters{Offered: 172, Delivered: 151, Expired: 3, Lost: 18}},
		{"a new one and one that was given up", FrameCounters{Delivered: 2}, 1, FrameCounters{Offered: 172, Delivered: 152, Expired: 3, Lost: 17}},
		{"what cannot be", FrameCounters{Delivered: 40}, 0, FrameCounters{Offered: 190, Delivered: 190}},
	} {
		if got := reported.With(c.count, FrameCounters{}, c.put); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}
