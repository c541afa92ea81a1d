package ledger

import "testing"

// Every offered frame has an outcome, even if the origin read the ring late, or if the mirror was removed and gets old
// frames again.
func TestModeEveryCountersAddUp(t *testing.T) {
	check := func(b *SenderCounters, newest, offered, overflow uint64) {
		t.Helper()
		a := b.FrameCounters(newest)
		if a.Offered != offered || a.Overflow != overflow || a.Settled()+a.InFlight != a.Offered {
			t.Errorf("got %+v, want %d offered, %d of them by overflow, and all somewhere", a, offered, overflow)
		}
	}
	record := func(b *SenderCounters, seq, missed uint64) {
		b.Recorded(seq, missed)
		b.Arrived++
	}

	late := &SenderCounters{}
	late.BeginAll(1, 0, 1_000_000)
	record(late, 1_000_015, 1_000_014) // the ring advanced before the first poll
	check(late, 1_000_015, 15, 14)

	removed := &SenderCounters{}
	removed.BeginAll(1, 0, 100)
	record(removed, 91, 90)
	for seq := uint64(92); seq <= 100; seq++ {
		record(removed, seq, 0)
	}
	check(removed, 100, 10, 0)
	removed.Close(100)
	removed.BeginAll(1, 0, 100)
	record(removed, 91, 90)
	for seq := uint64(92); seq <= 100; seq++ {
		record(removed, seq, 0)
	}
	record(removed, 103, 2)
	check(removed, 103, 23, 2)
}
