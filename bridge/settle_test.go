package bridge

import (
	"math"
	"testing"
)

// cutOff is the account of a subscription whose link ended after ten frames: six
// are known to have come, and the mirror has counted what it counts since before.
func cutOff(by reader) *book {
	b := &book{}
	b.settle(by)
	b.begin(1, 20, 20)
	b.sent, b.arrived = 10, 6
	b.close(30)
	return b
}

var firstReader = reader{run: 1, id: 3, held: Accounts{Delivered: 100, Late: 7}}

func TestAccountOfALinkThatEndedIsSettledByItsMirror(t *testing.T) {
	b := cutOff(firstReader)
	if want := (Accounts{Offered: 10, Delivered: 6, Lost: 4}); b.past != want {
		t.Errorf("when the link ended: got %+v, want %+v", b.past, want)
	}
	again := reader{run: 1, id: 3, held: Accounts{Delivered: 107, Late: 9}}
	b.settle(again)
	if want := (Accounts{Offered: 10, Delivered: 7, Late: 2, Lost: 1}); b.past != want {
		t.Errorf("when the mirror has told: got %+v, want %+v", b.past, want)
	}
	b.settle(again)
	if want := (Accounts{Offered: 10, Delivered: 7, Late: 2, Lost: 1}); b.past != want {
		t.Errorf("when it has told again: got %+v, want %+v", b.past, want)
	}
}

func TestAccountIsNotSettledByWhatCannotBe(t *testing.T) {
	for name, by := range map[string]reader{
		"nothing told":             {run: 1},
		"another mirror":           {run: 1, id: 4, held: Accounts{Delivered: 103, Late: 7}},
		"the daemon was restarted": {run: 2, id: 3, held: Accounts{Delivered: 103, Late: 7}},
		"more than was sent":       {run: 1, id: 3, held: Accounts{Delivered: 111, Late: 7}},
		"a count that went back":   {run: 1, id: 3, held: Accounts{Delivered: 99, Late: 7}},
		"counts with a sum of 2^64 and 3": {run: 1, id: 3, held: Accounts{
			Delivered: 100 + math.MaxUint64/2, LateKept: math.MaxUint64 / 2, Late: 7 + 5,
		}},
		"all that a number holds": {run: 1, id: 3, held: Accounts{
			Delivered: math.MaxUint64, LateKept: math.MaxUint64, Late: math.MaxUint64, Refused: math.MaxUint64, Superseded: math.MaxUint64, Duplicate: math.MaxUint64,
		}},
	} {
		b := cutOff(firstReader)
		b.settle(by)
		if want := (Accounts{Offered: 10, Delivered: 6, Lost: 4}); b.past != want {
			t.Errorf("%s: got %+v, want %+v as before", name, b.past, want)
		}
		if b.reader != by {
			t.Errorf("%s: got %+v for the next time, want %+v", name, b.reader, by)
		}
	}
}

// A peer of an older version tells nothing.
func TestAccountOfAMirrorThatTellsNothingStays(t *testing.T) {
	b := cutOff(reader{run: 1})
	b.settle(reader{run: 1})
	if want := (Accounts{Offered: 10, Delivered: 6, Lost: 4}); b.past != want {
		t.Errorf("got %+v, want %+v as before", b.past, want)
	}
}
