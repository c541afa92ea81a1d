package bridge

import (
	"math"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/testnet"
	"achbridge/wire"
)

// says makes the PC's node send its own messages to the robot, in the name of the mirror.
func (f *flow) says(make func(id uint32) wire.Message) {
	f.pc.node.loop.call(func() {
		m := f.pc.node.mirrors.byName[flowName]
		m.link.send(make(m.subID))
	})
}

func TestForgedCountersDoNotBreakSums(t *testing.T) {
	inFlow(t, "delay=10ms,rate=100mbit", rule.QoS{}, 64, func(f *flow) {
		look := 0
		f.stream(milli, 2*second, func(time.Duration) {
			const most = math.MaxUint64
			if look++; look%10 == 0 {
				f.says(func(id uint32) wire.Message {
					return wire.Counters{Holding: []wire.FrameCounters{
						{ID: id, Delivered: most, LateKept: most, Late: most, Refused: most, Superseded: most},
						{ID: id, Delivered: most}, {ID: id, Late: 1 << 63, Refused: 1 << 63}, {ID: 99, Delivered: 5},
					}}
				})
				f.balances()
			}
		})
		time.Sleep(second)
		f.agrees()
	})
}

// Consecutive updates with every extreme value do no harm.
func TestExtremeQoSUpdatesAreHarmless(t *testing.T) {
	inFlow(t, "delay=10ms,rate=10mbit,loss=2%", rule.QoS{}, 3000, func(f *flow) {
		all := []wire.QoS{
			{Budget: math.MaxInt64}, {Budget: 1}, {MaxRate: math.MaxUint32}, {MaxRate: 1}, {Priority: 8}, {Priority: 1},
			{Strict: true, Budget: 1}, {Class: 1, Budget: 1}, {Class: 1, Budget: math.MaxInt64}, {Mode: 1}, {Compress: 3}, {Class: 200},
		}
		i := 0
		f.stream(3*milli, 3*second, func(time.Duration) {
			i++
			for _, have := range []uint64{0, f.number, f.number - 1, math.MaxUint64} {
				if all[i%len(all)].Class == 200 {
					continue // it would be refused, which ends the mirror
				}
				f.says(func(id uint32) wire.Message {
					return wire.Update{ID: id, QoS: all[i%len(all)], HaveSeq: have, LastValue: true}
				})
			}
			f.balances()
		})
		f.says(func(id uint32) wire.Message { return wire.Update{ID: id} })
		time.Sleep(4 * second) // the node handles the queued updates one after the other
		f.holds(f.number, 2*second)
		time.Sleep(second)
		f.balances()
	})
}

// The file is not ours, and the frames do not fit. Repeated requests for the newest frame must not
// fill the link.
func TestOversizeFrameIsRetransmittedRarely(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		pc.channel(flowName, 4, 64)
		robot.channel("data", 4, 100_000).put(1, 100_000)
		robot.runAt(port, &putSource{dir: robot.dir}, Config{})
		bytes := 0
		w.net.Tap(func(e testnet.Event) {
			if e.What == testnet.WhatSent && e.From.Addr() == testnet.HostAddr4(robot.number) {
				bytes += len(e.Payload)
			}
		})
		request := rule.Mirror{Host: "robot", Channel: "data", QoS: rule.QoS{Compress: rule.CompressNone}}
		pc.runAt(port, &putSource{dir: pc.dir}, Config{Mirrors: []rule.Mirror{request}, Adopt: []string{flowName}})
		pc.node.SetPeers(asPeers([]*host{robot}))
		time.Sleep(5 * time.Minute)
		if a := pc.mirror(flowName).FrameCounters; a != (ledger.FrameCounters{Offered: 1, Refused: 1}) {
			t.Errorf("got %+v, want one frame refused", a)
		}
		if frames := bytes / 100_000; frames < 2 || frames > 15 {
			t.Errorf("the frame was sent %d times in five minutes, want 2 to 15", frames)
		}
	})
}
