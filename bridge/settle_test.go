package bridge

import (
	"math"
	"testing"

	"achbridge/bridge/ledger"
)

// cutOff returns the sender counters of a subscription whose link ended after ten frames. Six are known to
// have arrived. by identifies the mirror and its counters.
func cutOff(by ledger.Reader) *ledger.SenderCounters {
	b := &ledger.SenderCounters{}
	b.Settle(by)
	b.Begin(1, 20, 20)
	b.Sent, b.Arrived = 10, 6
	b.Close(30)
	return b
}

var firstReader = ledger.Reader{Run: 1, ID: 3, Held: ledger.FrameCounters{Delivered: 100, Late: 7}}

func TestMirrorCountersSettleEndedLink(t *testing.T) {
	b := cutOff(firstReader)
	if want := (ledger.FrameCounters{Offered: 10, Delivered: 6, Lost: 4}); b.Past != want {
		t.Errorf("when the link ended: got %+v, want %+v", b.Past, want)
	}
	again := ledger.Reader{Run: 1, ID: 3, Held: ledger.FrameCounters{Delivered: 107, Late: 9}}
	b.Settle(again)
	if want := (ledger.FrameCounters{Offered: 10, Delivered: 7, Late: 2, Lost: 1}); b.Past != want {
		t.Errorf("after a report of the mirror: got %+v, want %+v", b.Past, want)
	}
	b.Settle(again)
	if want := (ledger.FrameCounters{Offered: 10, Delivered: 7, Late: 2, Lost: 1}); b.Past != want {
		t.Errorf("after a second report: got %+v, want %+v", b.Past, want)
	}
}

func TestImpossibleMirrorCountersAreIgnored(t *testing.T) {
	for name, by := range map[string]ledger.Reader{
		"no report":                {Run: 1},
		"another mirror":           {Run: 1, ID: 4, Held: ledger.FrameCounters{Delivered: 103, Late: 7}},
		"the daemon was restarted": {Run: 2, ID: 3, Held: ledger.FrameCounters{Delivered: 103, Late: 7}},
		"more than was sent":       {Run: 1, ID: 3, Held: ledger.FrameCounters{Delivered: 111, Late: 7}},
		"a count that went back":   {Run: 1, ID: 3, Held: ledger.FrameCounters{Delivered: 99, Late: 7}},
		"counts with a sum of 2^64 and 3": {Run: 1, ID: 3, Held: ledger.FrameCounters{
			Delivered: 100 + math.MaxUint64/2, LateKept: math.MaxUint64 / 2, Late: 7 + 5,
		}},
		"all that a number holds": {Run: 1, ID: 3, Held: ledger.FrameCounters{
			Delivered: math.MaxUint64, LateKept: math.MaxUint64, Late: math.MaxUint64, Refused: math.MaxUint64, Superseded: math.MaxUint64, Duplicate: math.MaxUint64,
		}},
	} {
		b := cutOff(firstReader)
		b.Settle(by)
		if want := (ledger.FrameCounters{Offered: 10, Delivered: 6, Lost: 4}); b.Past != want {
			t.Errorf("%s: got %+v, want %+v as before", name, b.Past, want)
		}
		if b.Reader != by {
			t.Errorf("%s: got %+v for the next time, want %+v", name, b.Reader, by)
		}
	}
}

// A peer of an older version sends no counters.
func TestCountersStayWithoutMirrorReport(t *testing.T) {
	b := cutOff(ledger.Reader{Run: 1})
	b.Settle(ledger.Reader{Run: 1})
	if want := (ledger.FrameCounters{Offered: 10, Delivered: 6, Lost: 4}); b.Past != want {
		t.Errorf("got %+v, want %+v as before", b.Past, want)
	}
}

// A member may send any counters. Counters above the number of sent frames are ignored, and the
// sums of the sender counters still hold.
func TestForgedMirrorCountersAreIgnored(t *testing.T) {
	for name, lie := range map[string]ledger.FrameCounters{
		"one count above what was sent": {Delivered: 11},
		"a sum above what was sent":     {Delivered: 6, LateKept: 6},
		"each count all that was sent":  {Delivered: 10, LateKept: 10, Late: 10, Refused: 10, Superseded: 10},
		"a sum that wraps around":       {Delivered: 1 << 63, LateKept: 1 << 63, Late: 3},
		"all that a number holds":       {Superseded: math.MaxUint64},
	} {
		b := &ledger.SenderCounters{}
		b.Begin(1, 20, 20)
		b.Sent, b.Arrived = 10, 6
		b.TakeReport(ledger.FrameCounters{Delivered: 5, Late: 1})
		before := b.Settled(30)
		b.TakeReport(lie)
		got := b.Settled(30)
		if got != before {
			t.Errorf("%s: got %+v, want %+v as before", name, got, before)
		}
		if got.Settled()+got.InFlight != got.Offered {
			t.Errorf("%s: %+v does not add up", name, got)
		}
	}
	b := &ledger.SenderCounters{}
	b.Begin(1, 20, 20)
	b.Sent = 10
	honest := ledger.FrameCounters{Delivered: 4, LateKept: 1, Late: 2, Refused: 1, Superseded: 2}
	if b.TakeReport(honest); b.Reported != honest {
		t.Errorf("got %+v, want %+v: it is all that was sent", b.Reported, honest)
	}
}
