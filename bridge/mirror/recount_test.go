package mirror

import (
	"math"
	"math/big"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/localach/damage"
	"achbridge/wire"
)

// lateFor returns frame seq, captured long ago by a peer's clock that is known.
func lateFor(seq uint64, isLastValue bool) Arrival {
	a := came(seq, frame(seq, 64))
	a.Captured, a.LastValue, a.At = time.Second, isLastValue, Reading{Now: time.Minute, Known: true}
	return a
}

// strictMirror returns a mirror that puts no late frames except for last-value delivery.
func strictMirror(t *testing.T) *Mirror {
	t.Helper()
	m := testMirror(t, testDir(t), "m")
	m.qos.Late = rule.LateDrop
	return m
}

func TestReorderedLateFramesAreCountedOnce(t *testing.T) {
	m := strictMirror(t)
	m.Put(lateFor(2, false))
	m.Put(lateFor(1, false))
	m.Put(lateFor(2, true))
	if want := (ledger.FrameCounters{LateKept: 1, Late: 1}); m.counters.own != want {
		t.Errorf("got %+v, want %+v", m.counters.own, want)
	}
}

func TestOlderFrameDoesNotReplaceLastValue(t *testing.T) {
	m := strictMirror(t)
	m.Put(lateFor(2, false))
	m.Put(came(1, frame(1, 64)))
	if _, mustRetransmit, err := m.Check(); !mustRetransmit || err != nil {
		t.Errorf("got missing frame %v, %v; want frame 2, which was late and is still the newest", mustRetransmit, err)
	}
	m.Put(lateFor(2, true))
	if want := (ledger.FrameCounters{Delivered: 1, LateKept: 1}); m.counters.own != want {
		t.Errorf("got %+v, want %+v", m.counters.own, want)
	}
}

func TestDuplicateStrayFrameIsCountedOnce(t *testing.T) {
	m := testMirror(t, testDir(t), "m")
	stray := came(1, frame(1, 64))
	stray.Epoch = 9
	m.Put(stray)
	m.Put(stray)
	if want := (ledger.FrameCounters{Refused: 1, Duplicate: 1}); m.counters.own != want {
		t.Errorf("got %+v, want %+v", m.counters.own, want)
	}
}

func TestWaitingFrameAtLinkEndIsCountedOnce(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	damage.TakeLock(t, dir, "m")
	m.Put(came(1, frame(1, 64)))
	if have, _ := m.expect(1, rule.QoS{}); have != 0 {
		t.Errorf("got a request after frame %d, want none", have)
	}
	m.Put(came(1, frame(1, 64)))
	damage.FreeLock(t, dir, "m")
	eventually(t, "the frame that waited", time.Second, func() bool { return newestSeq(t, dir, "m") == 1 })
	if got := m.Since(); got != (ledger.FrameCounters{Delivered: 1}) {
		t.Errorf("got %+v of the new subscription, want one frame delivered", got)
	}
}

// The origin retransmits a late frame before it receives the counters that show its delivery.
func TestRetransmittedLastValueIsCountedOnce(t *testing.T) {
	m := strictMirror(t)
	m.Put(lateFor(1, false))
	m.TakeReport(wire.FrameCounters{Offered: 1, Delivered: 1})
	m.Put(lateFor(1, true))
	got := m.Status(0, Reading{}, "").FrameCounters
	if got.Settled()+got.InFlight != got.Offered || got.Late != 0 || got.LateKept != 1 {
		t.Errorf("got %+v, want one frame kept late and none late", got)
	}
}

// Counters reported by an origin cannot make the mirror's counters inconsistent.
func TestForgedOriginCountersDoNotBreakSums(t *testing.T) {
	for name, reported := range map[string]ledger.FrameCounters{
		"a count near 2^64":   {Offered: 10, Delivered: math.MaxUint64 - 1},
		"a sum that wraps":    {Offered: 10, Delivered: 1 << 63, Lost: 1 << 63, Late: 3},
		"more than it offers": {Offered: 10, Delivered: 8, Lost: 8},
		"less than it offers": {Offered: 10, Delivered: 3},
	} {
		m := testMirror(t, testDir(t), "m")
		m.Put(came(1, frame(1, 64)))
		m.TakeReport(reported.ToWire(1))
		m.Put(came(2, frame(2, 64)))
		a := m.Status(0, Reading{}, "").FrameCounters
		sum := new(big.Int)
		for _, n := range []uint64{a.Delivered, a.LateKept, a.Superseded, a.RateLimited, a.Expired, a.Lost, a.Late, a.Refused, a.Overflow, a.InFlight} {
			sum.Add(sum, new(big.Int).SetUint64(n))
		}
		if sum.Cmp(new(big.Int).SetUint64(a.Offered)) != 0 {
			t.Errorf("%s: %+v does not add up", name, a)
		}
	}
}
