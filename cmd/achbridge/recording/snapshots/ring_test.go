package snapshots

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"achbridge/testnet/need"
)

// heap counts the memory that a Ring has allocated.
type heap struct {
	bytes  int64
	refuse bool
}

func (h *heap) alloc(size int) []byte {
	if h.refuse {
		return nil
	}
	h.bytes += int64(size)
	return make([]byte, size)
}

func (h *heap) free(b []byte) {
	h.bytes -= int64(len(b))
	for n := copy(b, "freed"); n < len(b); n += copy(b[n:], b[:n]) { // a message that is used afterwards differs
	}
}

// all returns the messages after p as text, and the number of lost ones.
func all(r *Ring, p Position) (list []string, lost uint64) {
	for {
		m, next, missing, ok := r.Next(p)
		if !ok {
			return list, lost
		}
		list, lost, p = append(list, fmt.Sprintf("%d:%s", m.Log, m.Data)), lost+missing, next
	}
}

func TestRingReturnsAddedMessage(t *testing.T) {
	h := &heap{}
	r := NewRing(MinMemory, h.alloc, h.free)
	want := Message{Number: 1, Topic: 7, Seq: 1 << 40, Log: 1_700_000_000_123_456_789, Publish: -5, Data: []byte("frame")}
	r.Add(want)
	m, next, lost, ok := r.Next(r.Since(0))
	if !ok || lost != 0 || m.Number != 1 || m.Topic != 7 || m.Seq != want.Seq || m.Log != want.Log || m.Publish != -5 || string(m.Data) != "frame" {
		t.Fatalf("Next = %+v, lost %d, %v, want %+v", m, lost, ok, want)
	}
	if _, _, _, ok := r.Next(next); ok {
		t.Error("Next returns a second message")
	}
	r.Add(Message{Log: want.Log + 1, Data: []byte("later")})
	if m, _, lost, ok := r.Next(next); !ok || lost != 0 || string(m.Data) != "later" {
		t.Errorf("Next = %+v, %v, want the message that was added later", m, ok)
	}
}

// A random sequence of calls is compared with a plain list of messages: a reader gets each message once, in order, or
// counts it as lost, and the memory stays below its limit.
func TestRingReaderGetsOrCountsEachMessage(t *testing.T) {
	for seed := range uint64(need.LongOr(20, 4)) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := &heap{}
		r := NewRing(MinMemory, h.alloc, h.free)
		p := r.Since(0)
		var added, got, lost uint64
		read := func(most int) {
			for range most {
				m, next, missing, ok := r.Next(p)
				if !ok {
					break
				}
				got, lost, p = got+1, lost+missing, next
				if m.Number != got+lost || m.Seq != m.Number*3 || m.Log != int64(m.Number) || !bytes.Equal(m.Data, bytes.Repeat([]byte{byte(m.Number)}, len(m.Data))) {
					t.Fatalf("seed %d: got message %d with seq %d after %d read and %d lost", seed, m.Number, m.Seq, got, lost)
				}
			}
		}
		for range 3000 {
			switch random.IntN(10) {
			case 0:
				read(random.IntN(40))
			case 1:
				r.Expire(int64(added)-int64(random.IntN(2000)), p.Number())
			case 2:
				h.refuse = random.IntN(8) == 0
			default:
				added++
				size := random.IntN(20_000)
				if random.IntN(200) == 0 {
					size = random.IntN(3 * blockSize)
				}
				r.Add(Message{Seq: added * 3, Log: int64(added), Data: bytes.Repeat([]byte{byte(added)}, size)})
			}
			if h.bytes != r.Used() || h.bytes > MinMemory {
				t.Fatalf("seed %d: %d bytes allocated, Used %d, want at most %d", seed, h.bytes, r.Used(), int64(MinMemory))
			}
		}
		read(math.MaxInt)
		if got+lost < added { // the newest messages did not fit
			h.refuse = false
			added++
			r.Add(Message{Seq: added * 3, Log: int64(added), Data: []byte{byte(added)}})
			read(math.MaxInt)
		}
		if got+lost != added {
			t.Errorf("seed %d: read %d, lost %d, want %d in all", seed, got, lost, added)
		}
		if r.Clear(); h.bytes != 0 {
			t.Errorf("seed %d: %d bytes after Clear, want 0", seed, h.bytes)
		}
	}
}

// A reader that is as slow as the disk keeps messages from expiring by age, but not from making room for newer ones.
func TestRingKeepsOldMessagesForReader(t *testing.T) {
	h := &heap{}
	r := NewRing(MinMemory, h.alloc, h.free)
	for log := range int64(4) {
		r.Add(Message{Log: log, Data: make([]byte, blockSize-headSize)}) // a block each
	}
	p := r.Since(1)
	if r.Expire(3, p.Number()); r.Used() != 3*blockSize {
		t.Errorf("%d bytes are used, want the three blocks that the reader needs", r.Used())
	}
	if _, lost := all(r, p); lost != 0 {
		t.Errorf("the reader lost %d messages, want none", lost)
	}
	for log := range int64(9) {
		r.Add(Message{Log: 4 + log, Data: make([]byte, blockSize-headSize)})
	}
	if list, lost := all(r, p); len(list) != 8 || lost != 4 {
		t.Errorf("the reader got %d messages and lost %d, want 8 and 4", len(list), lost)
	}
	if r.Expire(math.MaxInt64, math.MaxUint64); r.Used() != 0 {
		t.Errorf("%d bytes are used after all has expired", r.Used())
	}
}

func TestRingSince(t *testing.T) {
	h := &heap{}
	r := NewRing(MinMemory, h.alloc, h.free)
	if list, _ := all(r, r.Since(0)); list != nil {
		t.Errorf("an empty ring has %v", list)
	}
	big := bytes.Repeat([]byte{'x'}, blockSize-headSize)
	r.Add(Message{Log: 1, Data: big})
	r.Add(Message{Log: 3, Data: []byte("c")})
	r.Add(Message{Log: 2, Data: []byte("b")}) // log times may be slightly out of order
	for from, want := range map[int64]int{0: 3, 1: 3, 2: 2, 3: 2, 4: 0} {
		if list, lost := all(r, r.Since(from)); len(list) != want || lost != 0 {
			t.Errorf("Since(%d) is followed by %d messages, %d lost, want %d", from, len(list), lost, want)
		}
	}
	end := r.Since(4)
	r.Add(Message{Log: 5, Data: []byte("e")})
	if list, lost := all(r, end); len(list) != 1 || list[0] != "5:e" || lost != 0 {
		t.Errorf("after the end: got %v, lost %d, want the message that was added", list, lost)
	}
}
