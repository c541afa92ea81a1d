package send

import (
	"testing"

	"achbridge/bridge/ledger"
	"achbridge/wire"
)

// TestFramePhases applies every event to a frame in every phase.
func TestFramePhases(t *testing.T) {
	const room = 100
	send := func(f *frame) {
		for sub := (&Subscription{counters: &ledger.SenderCounters{}}); f.phase == waiting; {
			sub.leave(f, 0)
		}
	}
	events := []struct {
		name string
		do   func(f *frame, size int)
		next [sent + 1]phase // next phase, indexed by the phase before
	}{
		{"load", func(f *frame, size int) {
			f.begin(f.seq+1, size, 0, false)
			f.ready(make([]byte, size), wire.CodecNone, room)
		}, [...]phase{waiting, waiting, waiting, waiting}},
		{"load, to be packed", func(f *frame, size int) { f.begin(f.seq+1, size, 0, false); f.compress(wire.CodecZstd) }, [...]phase{compressing, compressing, compressing, compressing}},
		{"packed", func(f *frame, size int) {
			if f.phase == compressing {
				f.ready(make([]byte, size), wire.CodecZstd, room)
			}
		}, [...]phase{settled, waiting, waiting, sent}},
		{"the last packet leaves", func(f *frame, _ int) { send(f) }, [...]phase{settled, compressing, sent, sent}},
		{"a packet is lost", func(f *frame, _ int) { f.lost(0) }, [...]phase{settled, compressing, waiting, waiting}},
		{"all arrives", func(f *frame, _ int) {
			for i := range f.parts.Count {
				f.arrived(i)
			}
		}, [...]phase{settled, compressing, settled, settled}},
		{"given up", func(f *frame, _ int) { f.settle() }, [...]phase{settled, settled, settled, settled}},
		{"passed over", func(f *frame, _ int) { f.skipTo(f.seq + 1) }, [...]phase{settled, settled, settled, settled}},
	}
	for _, size := range []int{10, 1000} {
		into := map[phase]func(f *frame){
			settled:     func(*frame) {},
			compressing: func(f *frame) { events[1].do(f, size) },
			waiting:     func(f *frame) { events[0].do(f, size) },
			sent:        func(f *frame) { events[0].do(f, size); send(f) },
		}
		for before, reach := range into {
			for _, event := range events {
				f := &frame{}
				reach(f)
				event.do(f, size)
				if got, want := f.phase, event.next[before]; got != want {
					t.Errorf("%d bytes, phase %d, %s: got phase %d, want %d", size, before, event.name, got, want)
				}
			}
		}
	}
}

// A frame of one packet does not block the next frame once sent; a frame of several packets does.
func TestSentWholeFrameDoesNotBlockNext(t *testing.T) {
	for size, want := range map[int]bool{10: false, 1000: true} {
		f := &frame{}
		f.begin(1, size, 0, false)
		f.ready(make([]byte, size), wire.CodecNone, 100)
		for sub := (&Subscription{counters: &ledger.SenderCounters{}}); f.phase == waiting; {
			sub.leave(f, 0)
		}
		if got := f.isBusy(); got != want {
			t.Errorf("%d bytes, sent: isBusy() = %v, want %v", size, got, want)
		}
	}
}
