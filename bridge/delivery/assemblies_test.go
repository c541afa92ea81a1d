package delivery

import (
	"testing"

	"achbridge/wire"
)

// halfOf returns part index of a frame of two parts of 100 bytes each.
func halfOf(seq uint64, index int) wire.Part {
	data := make([]byte, 100)
	for i := range data {
		data[i] = byte(seq)
	}
	return wire.Part{Frame: wire.Frame{Sub: 1, Seq: seq, Data: data}, Size: 200, Index: index, Count: 2}
}

func TestOlderFrameIsCompletedBesideNewer(t *testing.T) {
	var a Reassemblers
	for _, step := range []struct {
		seq   uint64
		index int
		whole bool
	}{{5, 0, false}, {6, 0, false}, {5, 1, true}, {5, 1, false}, {6, 1, true}, {4, 0, false}, {4, 1, false}} {
		got := a.Add(halfOf(step.seq, step.index))
		if (got != nil) != step.whole || got != nil && (len(got) != 200 || got[0] != byte(step.seq) || got[199] != byte(step.seq)) {
			t.Errorf("part %d of frame %d: got %d bytes, want the frame: %v", step.index, step.seq, len(got), step.whole)
		}
	}
}

func TestThirdFrameReplacesOldest(t *testing.T) {
	var a Reassemblers
	for seq := range uint64(100) {
		a.Add(halfOf(seq+1, 0))
	}
	if a.Add(halfOf(98, 1)) != nil || a.Add(halfOf(99, 1)) == nil || a.Add(halfOf(100, 1)) == nil {
		t.Error("got another outcome, want the two newest frames to be completed and no other")
	}
	if held := cap(a.newer.buf) + cap(a.older.buf); held > 400 {
		t.Errorf("holds %d bytes, want two frames of 200 at most", held)
	}
}

// wholeOf returns the only part of a frame of size bytes.
func wholeOf(seq uint64, size int) wire.Part {
	return wire.Part{Frame: wire.Frame{Sub: 1, Seq: seq, Data: make([]byte, size)}, Size: size, Count: 1}
}

func TestLargeFrameIsReassembledWithoutOverlap(t *testing.T) {
	const most, large = MostOverlapping, 3 * MostOverlapping
	for _, order := range [][]int{{most, large}, {large, most}, {large, large}, {most, large, most, most, large, most, most, most}} {
		var a Reassemblers
		for i, size := range order {
			a.Add(wire.Part{Frame: wire.Frame{Sub: 1, Seq: uint64(i + 1), Data: make([]byte, size/2)}, Size: size, Index: 0, Count: 2})
			if held := cap(a.newer.buf) + cap(a.older.buf); held > ReassemblerBytes(large) {
				t.Errorf("%v: holds %d bytes with frame %d, want %d at most", order, held, i+1, ReassemblerBytes(large))
			}
		}
		if a.Add(wholeOf(uint64(len(order)+1), large)) == nil || a.older.buf != nil {
			t.Errorf("%v: a large frame is not put together alone", order)
		}
	}
}
