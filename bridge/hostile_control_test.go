package bridge

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/status"
	"achbridge/testnet/need"
	"achbridge/wire"
)

func TestSubscriptionsOfPeerAreLimited(t *testing.T) {
	need.Long(t)
	inSiege(t, func(s *siege) {
		const channels = maxSubscriptions + 76
		for i := range channels {
			s.robot.channel(fmt.Sprintf("c%d", i), 2, 16)
		}
		evil := s.member("evil", s.robot)
		epochs := map[string]uint64{}
		s.within(10*time.Second, "the catalog", func() bool {
			for _, c := range messages[wire.Catalog](evil) {
				for _, ch := range c.Channels {
					epochs[ch.Name] = ch.Epoch
				}
			}
			return len(epochs) == channels+1
		})
		held := s.withstand(20*time.Second, func() {
			for i := range 10_000 {
				name := fmt.Sprintf("c%d", i%channels)
				evil.say(wire.Subscribe{ID: uint32(i + 1), Channel: name, Epoch: epochs[name]})
			}
		})
		exports := 0
		for _, e := range s.robot.node.Status().Exports {
			if e.Peer == "evil" {
				exports++
			}
		}
		refused := messages[wire.Refused](evil)
		if exports != maxSubscriptions || len(refused) == 0 || refused[0].Code != wire.CodeLimit {
			t.Errorf("the peer has %d subscriptions, %d were refused; want %d and the rest", exports, len(refused), maxSubscriptions)
		}
		if held > 32<<20 {
			t.Errorf("%d MiB held, want 32 at most", held>>20)
		}
		s.robot.logged("it has too many", logBurst+20)
	})
}

// badNames are names that no channel can have.
var badNames = []string{"a/b", "../../etc/passwd", "..", ".hidden", "a\x00b", strings.Repeat("a", 64), "größe", "a b", "\xff\xfe", ""}

func TestInvalidChannelNameEndsLink(t *testing.T) {
	fields := map[string]func(name string) (uint, any){
		"catalog": func(name string) (uint, any) {
			return wire.TypeCatalog, map[int]any{1: true, 2: []any{map[int]any{1: name, 2: 4, 3: 64, 4: 1}}}
		},
		"subscribe": func(name string) (uint, any) { return wire.TypeSubscribe, map[int]any{1: 1, 2: name, 3: 1} },
		"offer":     func(name string) (uint, any) { return wire.TypeOffer, map[int]any{1: 1, 2: "in", 3: name} },
	}
	inSiege(t, func(s *siege) {
		h := s.host("evil", siegeWire)
		held := s.withstand(10*time.Second, func() {
			variant := byte(0)
			for what, lie := range fields {
				for _, name := range badNames {
					if what == "offer" && name == "" {
						continue // empty means the same name as at the sender
					}
					variant++
					target := s.pc
					if what == "offer" {
						target = s.robot
					}
					evil := h.attacks(target, variant)
					evil.lie(lie(name))
					s.within(5*time.Second, fmt.Sprintf("the end of a link with a %s of %q", what, name), func() bool {
						select {
						case <-evil.s.Done():
							return true
						default:
							return false
						}
					})
				}
			}
		})
		if held > 8<<20 {
			t.Errorf("%d MiB held, want 8 at most", held>>20)
		}
		for _, dir := range []string{string(s.pc.dir), string(s.robot.dir)} {
			files, err := os.ReadDir(dir)
			if err != nil || len(files) != 1 {
				t.Errorf("files %v, %v in %s, want that of the data alone", files, err, dir)
			}
		}
		s.pc.logged("has a byte other than", 100)
		s.pc.logged("longer than 63 bytes", 100)
	})
}

func TestExcessiveChannelSizesAreRefused(t *testing.T) {
	const most = 1<<63 - 1
	sizes := [][2]uint64{
		{wire.MaxFrameCount, wire.MaxFrame}, // the limits of the protocol
		{1 << 32, 1 << 32}, {most, most}, {1<<64 - 1, 2}, {1 << 60, 16}, {0, 64}, {64, 0},
	}
	inSiege(t, func(s *siege) {
		h := s.host("evil", siegeWire)
		held := s.withstand(5*time.Second, func() {
			for i, size := range sizes {
				evil := h.attacks(s.pc, byte(i+1))
				evil.lie(wire.TypeCatalog, map[int]any{1: true, 2: []any{map[int]any{1: fmt.Sprintf("huge%d", i), 2: size[0], 3: size[1], 4: 1}}})
				time.Sleep(300 * milli)
				evil.s.Close("next")
			}
		})
		if held > 8<<20 {
			t.Errorf("%d MiB held, want 8 at most", held>>20)
		}
		if m := s.pc.mirror("evil.huge0"); m.State == status.MirrorLive || m.Seq != 0 {
			t.Errorf("got mirror %+v, want none", m)
		}
		if files, err := os.ReadDir(string(s.pc.dir)); err != nil || len(files) != 1 {
			t.Errorf("files %v, %v, want that of the data alone", files, err)
		}
		s.pc.logged("is too much: one may have", 1)
		s.pc.logged("frame count: ", len(sizes))
	})
}

// The long run has a million channels, other runs a tenth of that.
func TestCatalogOfMillionChannelsIsTruncated(t *testing.T) {
	messages := 50
	if need.IsLong() {
		messages = 500
	}
	inSiege(t, func(s *siege) {
		evil := s.member("evil", s.pc)
		held := s.withstand(20*time.Second, func() {
			for i := range messages {
				list := make([]wire.Channel, 2000)
				for j := range list {
					list[j] = wire.Channel{Name: fmt.Sprintf("channel%d", i*len(list)+j), FrameCount: 1, FrameSize: 16, Epoch: 1}
				}
				evil.say(wire.Catalog{Full: i == 0, Channels: list})
			}
		})
		mirrors := 0
		for _, m := range s.pc.node.Status().Mirrors {
			if m.Host == "evil" {
				mirrors++
			}
		}
		known := len(s.pc.node.Channels()) - 1 // except the robot's channel
		if most := maxSubscriptions - maxSubscriptions/keptFree; mirrors != most || known != maxCatalog {
			t.Errorf("got %d mirrors of %d channels, want %d of %d", mirrors, known, most, maxCatalog)
		}
		if held > 64<<20 {
			t.Errorf("%d MiB held, want 64 at most", held>>20)
		}
		s.pc.logged("mirror refused", 1)
	})
}

func TestRefusedPushesAreLoggedSparingly(t *testing.T) {
	inSiege(t, func(s *siege) {
		evil := s.member("evil", s.robot)
		held := s.withstand(20*time.Second, func() {
			evil.offers(wire.Channel{Name: "mine", FrameCount: 4, FrameSize: 64, Epoch: 1})
			for i := range 10_000 {
				evil.say(wire.Offer{ID: uint32(i + 1), Channel: "mine", As: fmt.Sprintf("data%d", i)})
			}
		})
		if n := len(messages[wire.Refused](evil)); n != 10_000 {
			t.Errorf("%d of 10000 pushes were refused", n)
		}
		if held > 8<<20 {
			t.Errorf("%d MiB held, want 8 at most", held>>20)
		}
		s.robot.logged("push refused", logBurst+21)
		s.robot.logged("left_out=", logBurst+21)
	})
}

func TestLinkEndsIfPeerDoesNotRead(t *testing.T) {
	inSiege(t, func(s *siege) {
		evil := s.member("evil", s.robot)
		evil.mu.Lock()
		evil.deaf = true
		evil.mu.Unlock()
		name := strings.Repeat("x", 63)
		most := int64(0)
		held := s.withstand(100*time.Second, func() {
			for i := range 60_000 {
				if evil.say(wire.Subscribe{ID: uint32(i + 1), Channel: name, Epoch: 1}) != nil {
					return
				}
				if i%5000 == 0 {
					most = max(most, heap())
				}
			}
		})
		t.Logf("%d KiB at most in the whole test", most>>10)
		if n := len(s.robot.node.Status().Links); n != 1 {
			t.Errorf("the robot has %d links, want that to the PC alone", n)
		}
		if held > 16<<20 {
			t.Errorf("%d MiB held, want 16 at most", held>>20)
		}
		s.robot.logged(errUnread.Error(), 1)
	})
}
