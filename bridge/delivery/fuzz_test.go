package delivery

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"achbridge/wire"
)

// mostFrame is the largest frame of the fuzz tests, in bytes. They do not test memory use.
const mostFrame = 1 << 16

// FuzzReassembler adds hostile parts in any order. A reassembled frame must have the size that
// its parts declare, and each part's data must be that which was added first.
func FuzzReassembler(f *testing.F) {
	for _, order := range [][]byte{{0, 1, 2}, {2, 0, 0, 1}, {0, 1, 130, 128, 129}, {0, 64 + 1, 2, 1}} {
		f.Add(order, uint16(100), uint8(3))
	}
	f.Fuzz(func(t *testing.T, order []byte, size uint16, count uint8) {
		n := wire.PartCount(int(size), max(int(size)/max(int(count), 1), 1))
		if n == 0 {
			return
		}
		var a reassembler
		first := map[[2]int][]byte{} // data that was added first, by frame and part index
		for i, b := range order {
			seq, index := 1+int(b>>7), int(b&63)%n
			p := wire.Part{Frame: wire.Frame{Seq: uint64(seq), LastValue: b&64 != 0}, Size: int(size), Index: index, Count: n}
			if index*wire.PartLen(p.Size, n, 0) >= p.Size {
				return // wire rejects such a part
			}
			p.Data = bytes.Repeat([]byte{byte(i)}, wire.PartLen(p.Size, n, index))
			frame := a.add(p)
			if at := [2]int{seq, index}; first[at] == nil {
				first[at] = p.Data
			}
			if frame == nil {
				continue
			}
			if len(frame) != p.Size {
				t.Fatalf("a frame of %d bytes, want %d", len(frame), p.Size)
			}
			if p.LastValue {
				continue // it may have been retransmitted, with later parts
			}
			for part := range n {
				from := part * wire.PartLen(p.Size, n, 0)
				got, want := frame[from:from+wire.PartLen(p.Size, n, part)], first[[2]int{seq, part}]
				if want == nil {
					t.Fatalf("complete without part %d", part)
				}
				if !bytes.Equal(got, want) && !a.isLastValue {
					t.Fatalf("part %d: got %x, want %x", part, got, want)
				}
			}
		}
	})
}

// FuzzReassemblerWithDatagrams adds all parts that wire can parse, of any number, size and order.
func FuzzReassemblerWithDatagrams(f *testing.F) {
	b := wire.AppendHeader(nil, wire.Header{Number: 1})
	for i := range 2 {
		b = wire.AppendPart(b, 0, wire.Part{
			Frame: wire.Frame{Sub: 1, Epoch: 1, Seq: 7, RawSize: 5, Data: []byte("abc")[:3-i]}, Size: 5, Index: i, Count: 2,
		})
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := wire.Parse(b)
		if err != nil {
			return
		}
		var a reassembler
		for e, ok := d.Next(); ok; e, ok = d.Next() {
			if e.Kind != wire.KindPart || e.Part.Size > mostFrame {
				continue
			}
			if frame := a.add(e.Part); frame != nil && len(frame) != e.Part.Size {
				t.Fatalf("a frame of %d bytes, want %d", len(frame), e.Part.Size)
			}
		}
	})
}

// FuzzSentPackets simulates a sender whose peer sends arbitrary feedback. A piece must arrive at
// most once, and be lost at most once and not after it has arrived. The bytes in flight must
// be the sum of the unsettled packets.
func FuzzSentPackets(f *testing.F) {
	f.Add([]byte{0, 10, 0, 10, 0, 10, 1, 3, 7, 0, 0})
	f.Add([]byte{0, 1, 2, 200, 2, 200, 0, 1, 1, 1, 0, 5, 2, 255})
	f.Add([]byte{0, 9, 0, 9, 0, 9, 0, 9, 1, 5, 0, 0, 0, 1, 4, 255, 255, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		var flight SentPackets
		outcome := map[uint64]string{}
		now, sum := time.Duration(1), 0
		size := map[uint64]int{}
		settle := func(pieces []Piece, to string) {
			for _, p := range pieces {
				switch was := outcome[p.Seq]; {
				case was == "":
					t.Fatalf("piece %d %s, but never left", p.Seq, to)
				case was == to, was == "arrived":
					t.Fatalf("piece %d was %s and is %s now", p.Seq, was, to)
				case was == "open":
					sum -= size[p.Seq]
				}
				outcome[p.Seq] = to
			}
		}
		take := func(n int) []byte {
			b := make([]byte, n)
			script = script[copy(b, script):]
			return b
		}
		for len(script) > 0 {
			now += time.Millisecond
			switch b := take(1)[0]; b % 4 {
			case 0:
				number := flight.NextNumber(now)
				n := int(take(1)[0])
				outcome[number], size[number] = "open", n
				sum += n
				flight.Sent(now, number, n, n, []Piece{{Sub: 1, Seq: number, Whole: true}})
			case 1:
				r := report(take(6))
				out := flight.Feedback(now, time.Duration(b)*time.Millisecond, r)
				settle(out.Arrived, "arrived")
				settle(out.Lost, "lost")
				if out.LostPackets < len(out.Lost) {
					t.Fatalf("%d packets lost with %d pieces", out.LostPackets, len(out.Lost))
				}
			case 2:
				now += time.Duration(take(1)[0]) * 30 * time.Millisecond
				settle(flight.Expire(now), "lost")
			case 3:
				flight.Longer(time.Duration(take(1)[0]) * time.Millisecond)
			}
			if flight.Bytes() != sum || flight.Held() < 0 {
				t.Fatalf("%d bytes in flight and %d held, want %d in flight", flight.Bytes(), flight.Held(), sum)
			}
			if _, open := flight.NextExpiry(); open != (sum > 0 || anyOpen(outcome)) {
				t.Fatalf("something expires: %v, with %d bytes in flight", open, sum)
			}
			if sent, lost := flight.Count(); lost > sent {
				t.Fatalf("%d of %d packets lost", lost, sent)
			}
		}
	})
}

func anyOpen(outcome map[uint64]string) bool {
	for _, f := range outcome {
		if f == "open" {
			return true
		}
	}
	return false
}

// report makes a report that wire would accept from six bytes.
func report(b []byte) wire.Feedback {
	r := wire.Feedback{
		Newest: 1 + uint64(b[0]%80), Bitmap: uint64(binary.LittleEndian.Uint16(b[1:])), Arrived: time.Duration(b[3]) * time.Millisecond,
	}
	if r.Newest <= 64 {
		r.Bitmap &= 1<<(r.Newest-1) - 1
	}
	back := uint64(b[4]%16) + 1
	if r.Bitmap&(1<<(back-1)) != 0 {
		r.Arrivals[0], r.ArrivalCount = wire.Arrival{Back: back, Before: time.Duration(b[5]) * time.Millisecond}, 1
	}
	return r
}
