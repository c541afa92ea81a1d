package ledger

import (
	"reflect"
	"testing"

	"achbridge/wire"
)

// numbered returns counters that are all different.
func numbered() (a Accounts) {
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
	if w := a.ToWire(1); w == (wire.Account{ID: 1}) || a.Most() != uint64(len(a.each())) {
		t.Errorf("got %+v, most %d", w, a.Most())
	}
	var fates uint64
	for _, f := range a.Fates() {
		fates += f.Count
	}
	if fates != a.Settled() {
		t.Errorf("the fates add up to %d, want %d", fates, a.Settled())
	}
}

func TestResetCountersGrowFromZero(t *testing.T) {
	before := Accounts{Offered: 10, Delivered: 8, Lost: 2}
	for _, c := range []struct{ now, want Accounts }{
		{Accounts{Offered: 15, Delivered: 13, Lost: 1, InFlight: 1}, Accounts{Offered: 5, Delivered: 5}},
		{Accounts{Offered: 4, Delivered: 4}, Accounts{Offered: 4, Delivered: 4}},
	} {
		if got := c.now.GrownBy(before); got != c.want {
			t.Errorf("%+v: got %+v, want %+v", c.now, got, c.want)
		}
	}
}

// The network delayed a frame until the origin had counted it as lost; then the frame arrived. No other frame
// was put. See TestFrameCountersAddUp/sparse_on_a_bad_link.
func TestLostThenReceivedFrameIsCountedOnce(t *testing.T) {
	told := Accounts{Offered: 171, Delivered: 150, Expired: 3, Lost: 18}
	for _, c := range []struct {
		name  string
		count Accounts
		put   uint64
		want  Accounts
	}{
		{"nothing came", Accounts{}, 5, told},
		{"one that was given up", Accounts{LateKept: 1}, 0, Accounts{Offered: 171, Delivered: 150, LateKept: 1, Expired: 3, Lost: 17}},
		{"more than were lost", Accounts{Superseded: 20}, 0, Accounts{Offered: 171, Delivered: 150, Superseded: 20, Expired: 1}},
		{"a new one", Accounts{Delivered: 1}, 1, Accounts{Offered: 172, Delivered: 151, Expired: 3, Lost: 18}},
		{"a new one and one that was given up", Accounts{Delivered: 2}, 1, Accounts{Offered: 172, Delivered: 152, Expired: 3, Lost: 17}},
		{"what cannot be", Accounts{Delivered: 40}, 0, Accounts{Offered: 190, Delivered: 190}},
	} {
		if got := told.With(c.count, Accounts{}, c.put); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}
