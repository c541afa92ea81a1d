package delivery

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"achbridge/wire"
)

func TestOutgoingRetransmitsLostFragmentsFirst(t *testing.T) {
	var o Outgoing
	o.Begin(7, 1000, 3)
	o.Next()
	o.Next()
	if !o.Lost(7, 0) || o.Lost(6, 0) || o.Lost(7, 3) {
		t.Error("lost parts of this frame, and only these, are to be taken")
	}
	if i, ok := o.Next(); !ok || i != 0 {
		t.Errorf("got part %d, want the lost part 0 first", i)
	}
	if i, ok := o.Next(); !ok || i != 2 {
		t.Errorf("got part %d, want part 2", i)
	}
	if o.Pending() {
		t.Error("pending although every part is on its way")
	}
	for i, done := range []bool{false, false, true} {
		if got := o.Arrived(7, i); got != done {
			t.Errorf("part %d: complete is %v, want %v", i, got, done)
		}
	}
	if o.Active() || o.Arrived(7, 0) {
		t.Error("active after the last part arrived")
	}
}

func TestArrivedFragmentIsNotRetransmitted(t *testing.T) {
	var o Outgoing
	o.Begin(1, 100, 2)
	o.Next()
	o.Next()
	o.Lost(1, 0)
	o.Arrived(1, 0)
	if i, ok := o.Next(); ok {
		t.Errorf("part %d is sent again although it arrived", i)
	}
}

func TestReassemblerCompletesFrame(t *testing.T) {
	const size, count = 1000, 7
	want := make([]byte, size)
	for i := range want {
		want[i] = byte(rand.Uint32())
	}
	chunk := (size + count - 1) / count
	var a reassembler
	for round, seq := range []uint64{5, 9} {
		var got []byte
		for _, i := range rand.Perm(count) {
			part := want[i*chunk : min((i+1)*chunk, size)]
			frame := a.add(partOf(seq, i, count, size, part))
			if frame != nil {
				got = frame
			}
			if again := a.add(partOf(seq, i, count, size, part)); again != nil {
				t.Error("a duplicate part completed the frame")
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("round %d: got a damaged or incomplete frame, want the whole one", round)
		}
	}
}

// partOf returns a part as wire would parse it.
func partOf(seq uint64, index, count, size int, data []byte) wire.Part {
	return wire.Part{Frame: wire.Frame{Seq: seq, Data: data}, Index: index, Count: count, Size: size}
}

func TestNewerFrameReplacesIncompleteFrame(t *testing.T) {
	var a reassembler
	a.add(partOf(1, 0, 2, 10, make([]byte, 5)))
	a.add(partOf(2, 0, 2, 10, make([]byte, 5)))
	if a.add(partOf(1, 1, 2, 10, make([]byte, 5))) != nil {
		t.Error("an older frame was completed after a newer one began")
	}
	if a.add(partOf(2, 1, 3, 10, make([]byte, 4))) != nil {
		t.Error("a part that contradicts the others was taken")
	}
	if a.add(partOf(2, 1, 2, 10, make([]byte, 5))) == nil {
		t.Error("the frame is not complete")
	}
}

func TestReassemblerAcceptsRetransmittedLastValue(t *testing.T) {
	var a reassembler
	a.add(partOf(1, 0, 2, 10, make([]byte, 5)))
	if a.add(partOf(1, 1, 2, 10, make([]byte, 5))) == nil || a.isLastValue {
		t.Fatal("got an incomplete frame or a last value, want a complete ordinary frame")
	}
	first, second := partOf(1, 0, 2, 10, make([]byte, 5)), partOf(1, 1, 2, 10, make([]byte, 5))
	first.LastValue = true
	a.add(first)
	if a.add(second) == nil || !a.isLastValue {
		t.Error("got an incomplete frame or no last value, want the retransmitted last value")
	}
}
