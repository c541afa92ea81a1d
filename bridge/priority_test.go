package bridge

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/testnet/need"
)

// stream is one of several channels that share a link.
type stream struct {
	size   int
	period time.Duration
	qos    rule.QoS
}

// share runs channels over a link. It returns how many frames of each arrived after the first two
// seconds.
func (w *world) share(link string, long time.Duration, streams ...stream) (frames []float64) {
	loads, b := []load{}, &bench{world: w}
	for i, s := range streams {
		loads = append(loads, load{channel: fmt.Sprintf("c%d", i), size: s.size, period: s.period, qos: s.qos})
	}
	b.s = scenario{link: link, loads: loads}
	b.params = mustParams(w.t, link)
	channels := b.connect()
	begin := time.Now()
	var work sync.WaitGroup
	for i, l := range loads {
		work.Go(func() { l.write(channels[i], b.sources[0], begin, warmUp+long) })
	}
	time.Sleep(warmUp)
	for _, l := range loads {
		frames = append(frames, -float64(lastSeq(w.t, b.pc, b.mirrorOf(l))))
	}
	time.Sleep(long)
	for i, l := range loads {
		frames[i] += float64(lastSeq(w.t, b.pc, b.mirrorOf(l)))
	}
	work.Wait()
	return frames
}

func TestUrgentChannelLeavesShareForLowerPriorities(t *testing.T) {
	measured(t)
	inWorld(t, func(w *world) {
		flood := func(level int) stream { return stream{1000, milli, rule.QoS{Priority: rule.Priority(level + 1)}} }
		got := w.share("delay=10ms,rate=1mbit,queue=32KiB", 20*second, flood(7), flood(4), flood(0))
		all := got[0] + got[1] + got[2]
		for i, want := range []float64{0.907, 0.0454, 0.0476} {
			if share := got[i] / all; math.Abs(share/want-1) > 0.1 {
				t.Errorf("channel %d got %.2f %% of the frames, want %.2f %%", i, 100*share, 100*want)
			}
		}
		if all < 0.8*20*1e6/8/1060 {
			t.Errorf("got %.0f frames in 20 s: the link was not full", all)
		}
	})
}

func TestEqualChannelsShareEqually(t *testing.T) {
	measured(t)
	inWorld(t, func(w *world) {
		s := stream{1000, milli, rule.QoS{}}
		got := w.share("delay=10ms,rate=1mbit,queue=32KiB", 20*second, s, s, s, s)
		for i, n := range got {
			if math.Abs(n/got[0]-1) > 0.02 {
				t.Errorf("channel %d got %.0f frames, the first %.0f", i, n, got[0])
			}
		}
	})
}

// The frames of the first channel have many fragments, or are compressed while others are sent.
func TestNoChannelStarves(t *testing.T) {
	for way, least := range map[rule.Compress]float64{rule.CompressNone: 8, rule.CompressAuto: 100} {
		t.Run(way.String(), func(t *testing.T) {
			if way == rule.CompressAuto {
				need.Long(t)
			}
			inWorld(t, func(w *world) {
				streams := []stream{{20_000, 100 * milli, rule.QoS{Priority: 1, Budget: 20 * second, Compress: way}}, {64, second, rule.QoS{Priority: 1}}, {64, second, rule.QoS{}}}
				for range 10 {
					streams = append(streams, stream{200, milli, rule.QoS{Priority: priority7}}, stream{2000, 5 * milli, rule.QoS{Priority: priority7}})
				}
				for i, n := range w.share("delay=5ms,rate=2mbit,queue=32KiB", 20*second, streams...) {
					switch {
					case i == 0 && n < least: // 5 % of 2 Mbit/s, shared with another channel
						t.Errorf("got %.0f large frames of the lowest priority in 20 s, want at least %.0f", n, least)
					case i > 0 && n < 15:
						t.Errorf("got %.0f frames of channel %d in 20 s, want at least 15", n, i)
					}
				}
			})
		})
	}
}

// Every large frame takes longer than its budget, and a newer one exists by then. Frames that were
// begun are finished, so they arrive. They use four fifths of the link, in proportion to the
// square roots of the sizes.
func TestLateChannelDoesNotStarveEqualPriority(t *testing.T) {
	measured(t)
	inWorld(t, func(w *world) {
		hopeless := stream{30_000, 100 * milli, rule.QoS{Compress: rule.CompressNone}}
		got := w.share("delay=10ms,rate=1mbit,queue=32KiB", 10*second, hopeless, stream{1000, milli, rule.QoS{}}, stream{64, 100 * milli, rule.QoS{}})
		if got[0] < 25 || got[1] < 60 || got[2] < 80 {
			t.Errorf("got %.0f large frames in 10 s, and %.0f and %.0f others, want at least 25, 60 and 80", got[0], got[1], got[2])
		}
	})
}
