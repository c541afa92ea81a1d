package bridge

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"achbridge/bridge/peers"
	"achbridge/bridge/send"
	"achbridge/bridge/status"
	"achbridge/testnet/need"
	"achbridge/wire"
)

// feeding returns a member that feeds one mirror of the PC.
func (s *siege) feeding(size int) (evil *member, id uint32) {
	s.t.Helper()
	evil = s.member("evil", s.pc)
	evil.offers(wire.Channel{Name: "lie", FrameCount: 4, FrameSize: size, Epoch: 1})
	return evil, evil.serves("lie")
}

func TestHostileFragmentsUseBoundedMemory(t *testing.T) {
	const size = 1 << 20
	inSiege(t, func(s *siege) {
		evil, id := s.feeding(size)
		chunk := bytes.Repeat([]byte{0xee}, 1000)
		held := s.withstand(10*time.Second, func() {
			seq := uint64(1) // newer and newer frames, none of which is completed
			for i := range 20_000 {
				p := wire.Part{Frame: wire.Frame{Sub: id, Epoch: 1, Seq: seq, Data: chunk}, Size: 4 * 1000 * 1000, Index: i % 3000, Count: 4000}
				switch i % 8 {
				case 0: // the same fragment with other data
					p.Data, p.Index = bytes.Repeat([]byte{byte(i)}, 1000), 7
				case 1: // the same frame in other fragments
					p.Size, p.Count, p.Index = 4100*1000, 4100, 4050
				case 2:
					seq++
				case 3: // larger than the channel's frames
					p.Seq = 1 << 50
					p.Size, p.Count, p.Index = 60*1000*1000, 60*1000, 0
				case 4: // 4 GiB, which package wire rejects without ending the link
					evil.number++
					b := wire.AppendHeader(nil, wire.Header{Number: evil.number, Sent: time.Duration(evil.number)})
					if i < 8*(send.MaxBadDatagrams-1) {
						evil.s.SendDatagram(binary.AppendUvarint(append(b, 2, 1, 1, 0, 0, 0, 5, 0), 4<<30))
					}
					continue
				}
				evil.parts(p)
				if i%20 == 0 {
					time.Sleep(5 * milli)
				}
			}
		})
		if held > 6<<20 {
			t.Errorf("%d KiB held, want the 4 MiB of the largest frame and little more", held>>10)
		}
		m := s.pc.mirror("evil.lie")
		if m.State != status.MirrorLive || m.Delivered+m.LateKept != 0 {
			t.Errorf("got mirror %+v, want it live and without a frame", m)
		}
		const last = 1 << 40
		evil.parts(wire.Part{Frame: wire.Frame{Sub: id, Epoch: 1, Seq: last, LastValue: true, Data: frame(last, 64)[:32]}, Size: 64, Index: 0, Count: 2})
		evil.parts(wire.Part{Frame: wire.Frame{Sub: id, Epoch: 1, Seq: last, LastValue: true, Data: frame(last, 64)[32:]}, Size: 64, Index: 1, Count: 2})
		s.pc.follows("evil.lie", last, time.Second)
	})
}

// A datagram of one kilobyte may decompress into megabytes. A frame that was received before is
// not decompressed.
func TestDuplicateFrameIsNotDecompressed(t *testing.T) {
	inSiege(t, func(s *siege) {
		evil, id := s.feeding(64)
		f := wire.Frame{Sub: id, Epoch: 1, Seq: 7, Data: frame(7, 64)}
		evil.frames(f)
		s.pc.follows("evil.lie", 7, time.Second)
		f.Codec, f.RawSize, f.Data = wire.CodecZstd, 60, []byte("no zstd at all")
		for range 10 {
			evil.frames(f)
		}
		time.Sleep(time.Second)
		if m := s.pc.mirror("evil.lie"); m.Refused != 0 || m.Duplicate != 10 {
			t.Errorf("got %d refused and %d duplicates, want none and 10", m.Refused, m.Duplicate)
		}
	})
}

// Each stream of records holds one compressed frame and one decompressed.
func TestSecondStreamOfSubscriptionUsesNoMemory(t *testing.T) {
	const size = 4 << 20
	inSiege(t, func(s *siege) {
		evil, id := s.feeding(size)
		before := heap()
		for range 32 {
			stream, err := evil.s.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			b := wire.AppendStreamHeader(nil, wire.StreamHeader{Sub: id, Epoch: 1})
			b = wire.AppendRecordHead(b, wire.Record{Seq: 1}, size)
			if _, err := stream.Write(append(b, 1)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if held := heap() - before; held > 2*size {
			t.Errorf("%d MiB held, want one frame of %d MiB and little more", held>>20, size>>20)
		}
	})
}

// A stream whose subscription has ended holds no memory either.
func TestStreamEndsWhenSubscriptionEnds(t *testing.T) {
	const size = 4 << 20
	inSiege(t, func(s *siege) {
		evil := s.member("evil", s.pc)
		before := heap()
		for epoch := uint64(1); epoch <= 16; epoch++ {
			evil.offers(wire.Channel{Name: "lie", FrameCount: 4, FrameSize: size, Epoch: epoch})
			var asked wire.Subscribe
			s.within(5*time.Second, "a subscription", func() bool {
				list := messages[wire.Subscribe](evil)
				if len(list) == 0 {
					return false
				}
				asked = list[len(list)-1]
				return asked.Epoch == epoch
			})
			evil.say(wire.Subscribed{ID: asked.ID, Epoch: epoch, LastSeq: 1 << 40, FrameCount: 4, FrameSize: size})
			stream, err := evil.s.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			b := wire.AppendStreamHeader(nil, wire.StreamHeader{Sub: asked.ID, Epoch: epoch})
			b = wire.AppendRecordHead(b, wire.Record{Seq: 1}, size)
			if _, err := stream.Write(append(b, 1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * milli)
			evil.offers()
			time.Sleep(100 * milli)
		}
		time.Sleep(time.Second)
		if held := heap() - before; held > 2*size {
			t.Errorf("%d MiB held, want none of the frames of %d MiB", held>>20, size>>20)
		}
	})
}

func TestMalformedDatagramsEndTheLink(t *testing.T) {
	inSiege(t, func(s *siege) {
		evil, _ := s.feeding(64)
		s.withstand(2*time.Second, func() {
			for range 2 * send.MaxBadDatagrams {
				evil.s.SendDatagram(binary.AppendUvarint([]byte{1, 0, 2, 1, 1, 0, 0, 0, 5, 0}, 4<<30))
				time.Sleep(milli)
			}
		})
		s.pc.logged(fmt.Sprint(send.MaxBadDatagrams, " datagrams that are not ours"), 1)
	})
}

func TestJumpingSequenceNumbersAreHarmless(t *testing.T) {
	inSiege(t, func(s *siege) {
		evil, id := s.feeding(64)
		give := func(seq uint64) {
			evil.frames(wire.Frame{Sub: id, Epoch: 1, Seq: seq, LastValue: true, Data: frame(seq, 64)})
		}
		const top = 1 << 60
		held := s.withstand(5*time.Second, func() {
			give(7)
			time.Sleep(100 * milli)
			give(top)
			time.Sleep(100 * milli)
			for i := range uint64(2000) {
				give(top - i)
				give(i + 1)
				time.Sleep(milli)
			}
			give(1<<64 - 1)
			time.Sleep(100 * milli)
			give(top + 1)
		})
		m := s.pc.mirror("evil.lie")
		if puts := m.Delivered + m.LateKept; puts != 3 || m.Seq != 1<<64-1 {
			t.Errorf("%d frames were put, the newest %d; want three, and that of the greatest number", puts, m.Seq)
		}
		if sum := m.Settled() + m.InFlight; sum != m.Offered {
			t.Errorf("accounts do not balance: %+v", m.FrameCounters)
		}
		if held > 4<<20 {
			t.Errorf("%d KiB held, want next to nothing", held>>10)
		}
		evil.offers(wire.Channel{Name: "lie", FrameCount: 4, FrameSize: 64, Epoch: 2}) // another epoch, which begins at 1
		time.Sleep(100 * milli)
		list := messages[wire.Subscribe](evil)
		again := list[len(list)-1]
		evil.say(wire.Subscribed{ID: again.ID, Epoch: 2, LastSeq: 1, FrameCount: 4, FrameSize: 64})
		evil.frames(wire.Frame{Sub: again.ID, Epoch: 2, Seq: 1, LastValue: true, Data: frame(1, 64)})
		s.pc.follows("evil.lie", 1, time.Second)
	})
}

func TestLinkLimitExemptsListedPeers(t *testing.T) {
	need.Long(t)
	inSiege(t, func(s *siege) {
		h := s.host("evil", siegeWire)
		s.withstand(10*time.Second, func() {
			for i := range byte(peers.MaxLinks + 20) {
				h.name = fmt.Sprintf("evil%d", i)
				h.tries(s.robot, i)
			}
		})
		if n := len(s.robot.node.Status().Links); n != peers.MaxLinks {
			t.Errorf("%d links, want %d", n, peers.MaxLinks)
		}
		s.robot.logged("too many links", 12)
		friend := s.host("friend", siegeWire)
		s.robot.node.SetPeers(asPeers([]*host{friend}))
		friend.runAt(port, &putSource{dir: friend.dir}, Config{})
		s.within(10*time.Second, "the listed peer", func() bool { return len(friend.node.Status().Links) == 1 })
	})
}
