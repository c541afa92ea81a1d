package bridge

import (
	"crypto"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"

	"achbridge/bridge/rule"
	"achbridge/bridge/seal"
	"achbridge/wire"
)

// lieNumber is the number of a frame that the robot never puts.
const lieNumber = 1 << 40

// sealedFor returns a frame of the robot's channel imu, sealed by another signer with the
// channel's key. Its counter is well above those of the robot. changes modify the frame before it
// is sealed.
func (h *host) sealedFor(signer crypto.Signer, changes ...func(*seal.Frame)) []byte {
	h.w.t.Helper()
	var (
		key   seal.Key
		f     seal.Frame
		count uint64
	)
	h.node.loop.call(func() {
		wireKey, newest, ok := h.node.shared.publishers.Key("imu")
		if !ok {
			h.w.t.Fatal("imu is not at the hub")
		}
		key, count = seal.Key{ID: seal.ID(wireKey.KeyID), Secret: [seal.SecretSize]byte(wireKey.Key)}, wireKey.From+50
		f = seal.Frame{Epoch: h.node.locals.Get("imu").Ring.Epoch(), Seq: newest + 50, Captured: h.node.now(), Data: frame(lieNumber, 64)}
	})
	for _, change := range changes {
		change(&f)
	}
	s := seal.NewSealer(seal.Origin{Key: key, Node: h.id}, signer)
	for range count {
		if _, err := s.Seal(nil, f); err != nil {
			h.w.t.Fatal(err)
		}
	}
	b, err := s.Seal(nil, f)
	if err != nil {
		h.w.t.Fatal(err)
	}
	return b
}

// putsForgery makes the hub deliver a forged frame to pc in place of the next one. It reports
// whether the frame is put.
func (h *worldHub) putsForgery(pc *host, b []byte) (put bool) {
	done := false
	h.lies(func(reader, _ string, honest []byte) [][]byte {
		if reader != pc.name || done {
			return [][]byte{honest}
		}
		done = true
		return [][]byte{b}
	})
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		number, _ := pc.newest("robot.imu")
		put = put || number == lieNumber
	}
	return put
}

// All readers have a channel's key. With an authority, the key does not make them its origin.
func TestMemberCannotForgeFramesUnderAuthority(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.authority()
		hub, robot, pc, far := w.hubThree(rule.QoS{}, func(h *host) { h.issued(a) })
		robot.channel("imu", 16, 64).streams(64)
		pc.freshWithin(4*time.Second, "robot.imu")
		far.freshWithin(4*time.Second, "robot.imu")
		for name, signer := range map[string]crypto.Signer{"by far": far.node.cfg.Endpoint.Signer(), "not at all": nil} {
			before := pc.forgeries()
			if hub.putsForgery(pc, robot.sealedFor(signer)) {
				t.Errorf("a frame signed %s was put", name)
			}
			if pc.forgeries() == before {
				t.Errorf("got no event for a frame signed %s, want one", name)
			}
		}
		pc.freshWithin(100*time.Millisecond, "robot.imu")
	})
}

// Under one network key, readers can seal frames for others, as docs/fleet.md says.
func TestMemberCanForgeFramesUnderNetworkKey(t *testing.T) {
	inWorld(t, func(w *world) {
		hub, robot, pc, _ := w.hubThree(rule.QoS{})
		robot.channel("imu", 16, 64).streams(64)
		pc.freshWithin(4*time.Second, "robot.imu")
		if !hub.putsForgery(pc, robot.sealedFor(nil)) {
			t.Error("the frame was not put: say so in docs/fleet.md")
		}
	})
}

// A key may outlive the epoch of its channel. A frame of another epoch is neither put nor counted as received.
func TestFrameOfOtherEpochCountsAsForged(t *testing.T) {
	inWorld(t, func(w *world) {
		hub, robot, pc, _ := w.hubThree(rule.QoS{})
		robot.channel("imu", 16, 64).streams(64)
		pc.freshWithin(4*time.Second, "robot.imu")
		b := robot.sealedFor(nil, func(f *seal.Frame) { f.Epoch++ })
		if hub.putsForgery(pc, b) {
			t.Error("a frame of another epoch was put")
		}
		if pc.forgeries() == 0 {
			t.Error("got no event for the frame of another epoch, want one")
		}
		if m := pc.mirror("robot.imu"); m.Refused != 0 {
			t.Errorf("%d frames count as refused, want none: the frame was not the robot's", m.Refused)
		}
	})
}

// Under one network key each reader can seal frames for the other readers. Such a frame must not
// use more memory than the channel's frame size.
func TestSealedFrameAboveChannelSizeIsNotPut(t *testing.T) {
	inWorld(t, func(w *world) {
		hub, robot, pc, _ := w.hubThree(rule.QoS{})
		robot.channel("imu", 16, 64).streams(64)
		pc.freshWithin(4*time.Second, "robot.imu")
		large := frame(lieNumber, 1<<20)
		if hub.putsForgery(pc, robot.sealedFor(nil, func(f *seal.Frame) { f.Data = large })) {
			t.Error("a large frame was put")
		}
		if pc.forgeries() == 0 || pc.mirror("robot.imu").Refused != 0 {
			t.Errorf("got %d events and %+v, want an event of a frame that was not opened", pc.forgeries(), pc.mirror("robot.imu").FrameCounters)
		}
		encodedLayout := robot.sealedFor(nil, func(f *seal.Frame) {
			f.Codec, f.RawSize, f.Data = wire.CodecS2, len(large), s2.Encode(nil, large)
		})
		if hub.putsForgery(pc, encodedLayout) {
			t.Error("a frame was put that is too large when decompressed")
		}
		if m := pc.mirror("robot.imu"); m.Refused != 1 {
			t.Errorf("got %+v, want one frame refused", m.FrameCounters)
		}
	})
}

// After a restart the robot seals with new keys, and a restarted PC gets new keys too.
func TestReplayedFramesOfEarlierIncarnationsAreNotPut(t *testing.T) {
	inWorld(t, func(w *world) {
		hub, robot, pc := w.hubPair(rule.QoS{})
		var old [][]byte
		hub.lies(func(_, _ string, b []byte) [][]byte {
			old = append(old, slices.Clone(b))
			return [][]byte{b}
		})
		imu := robot.channel("imu", 16, 64)
		imu.put(1, 64)
		pc.follows("robot.imu", 1, 4*time.Second)
		imu.puts(2, 200, 64, 10*time.Millisecond)
		pc.follows("robot.imu", 201, time.Second)
		count := 0
		hub.lies(func(_, _ string, b []byte) [][]byte { // including frames put between the restarts
			old = append(old, slices.Clone(b))
			count += 7
			return [][]byte{old[count%len(old)], b, old[(count+3)%len(old)]}
		})
		last, seen := uint64(201), uint64(201)
		for _, h := range []*host{robot, pc, robot} {
			h.stop()
			h.atHub(hub, h.cfg, map[*host]string{robot: "pc", pc: "robot"}[h])
			before := pc.forgeries() // a restarted node has none
			for range 400 {
				imu.puts(last+1, 1, 64, 10*time.Millisecond)
				last++
				number, _ := pc.newest("robot.imu")
				if number < seen || number > last {
					t.Fatalf("got frame %d, want one from %d to %d", number, seen, last)
				}
				seen = number
			}
			pc.freshWithin(100*time.Millisecond, "robot.imu")
			if pc.forgeries() == before {
				t.Error("got no event for the replayed frames, want one")
			}
		}
	})
}
