package bridge

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach/damage"
	"achbridge/testnet/need"
)

// countersCase is traffic whose frame counters are audited.
type countersCase struct {
	name   string
	link   string
	qos    rule.QoS
	size   int
	period time.Duration
	long   time.Duration                     // 0 means 3 s
	at     map[time.Duration]func(f *flow)   // actions during the traffic
	sees   func(a ledger.FrameCounters) bool // reports the outcome that the case is about, which must occur
}

var countersCases = []countersCase{
	{
		name: "clean", link: "delay=10ms,rate=100mbit", size: 64, period: milli,
		sees: func(a ledger.FrameCounters) bool { return a.Delivered == a.Offered },
	},
	{
		name: "5 % lost", link: "delay=10ms,rate=100mbit,loss=5%", size: 64, period: milli,
		sees: func(a ledger.FrameCounters) bool { return a.Lost > 0 },
	},
	{
		name: "30 % lost, reordered and doubled", link: "delay=10ms,rate=100mbit,loss=30%,reorder=20%,dup=20%", size: 64, period: milli,
		sees: func(a ledger.FrameCounters) bool { return a.Lost > 0 && a.Superseded > 0 },
	},
	{
		name: "sparse on a bad link", link: "delay=10ms,rate=100mbit,loss=30%,reorder=20%,dup=20%", size: 3000, period: 50 * milli,
		long: 10 * second,
		sees: func(a ledger.FrameCounters) bool { return a.Delivered > 0 && a.Lost > 0 },
	},
	{
		name: "saturated, small", link: "delay=10ms,rate=1mbit,queue=32KiB", size: 64, period: milli,
		sees: func(a ledger.FrameCounters) bool { return a.Delivered > 0 },
	},
	{
		name: "saturated, a packet", link: "delay=10ms,rate=1mbit,queue=32KiB", size: 1000, period: milli,
		sees: func(a ledger.FrameCounters) bool { return a.Superseded > 0 },
	},
	{
		name: "saturated, three packets", link: "delay=10ms,rate=1mbit,queue=32KiB", size: 3000, period: 5 * milli, qos: rule.QoS{Budget: second},
		sees: func(a ledger.FrameCounters) bool { return a.Superseded > 0 && a.Delivered > 0 },
	},
	{
		name: "saturated, large, late", link: "delay=10ms,rate=1mbit,queue=32KiB", size: 20_000, period: 40 * milli, qos: rule.QoS{Compress: rule.CompressNone}, long: 5 * second,
		sees: func(a ledger.FrameCounters) bool { return a.LateKept > 0 && a.Expired == 0 }, // a frame that was begun is finished
	},
	{
		name: "saturated, large, late, strict", link: "delay=10ms,rate=1mbit,queue=32KiB", size: 20_000, period: 40 * milli, qos: rule.QoS{Compress: rule.CompressNone, Late: rule.LateDrop}, long: 5 * second,
		sees: func(a ledger.FrameCounters) bool { return a.Expired > 0 },
	},
	{
		name: "max_rate", link: "delay=10ms,rate=100mbit", size: 64, period: milli, qos: rule.QoS{MaxRate: 100_000},
		sees: func(a ledger.FrameCounters) bool { return a.RateLimited > 8*a.Offered/10 },
	},
	{
		name: "way longer than the budget", link: "delay=10ms,rate=100mbit", size: 64, period: milli, qos: rule.QoS{Budget: 30 * milli},
		at:   map[time.Duration]func(f *flow){second: func(f *flow) { f.change("delay=100ms") }},
		sees: func(a ledger.FrameCounters) bool { return a.Late == 0 && a.LateKept > 100 },
	},
	{
		name: "way longer than the budget, strict", link: "delay=10ms,rate=100mbit", size: 64, period: milli, qos: rule.QoS{Budget: 30 * milli, Late: rule.LateDrop},
		at:   map[time.Duration]func(f *flow){second: func(f *flow) { f.change("delay=100ms") }},
		sees: func(a ledger.FrameCounters) bool { return a.Late > 100 && a.LateKept > 0 },
	},
	{
		name: "budget below the jitter, lossy", link: "delay=10ms,jitter=10ms,rate=100mbit,loss=10%,reorder=20%,dup=10%", size: 64, period: 5 * milli, qos: rule.QoS{Budget: 5 * milli},
		long: 10 * second,
		sees: func(a ledger.FrameCounters) bool { return a.Late == 0 && a.LateKept > 0 && a.Delivered > 0 },
	},
	{
		name: "budget below the jitter, lossy, strict", link: "delay=10ms,jitter=10ms,rate=100mbit,loss=10%,reorder=20%,dup=10%", size: 64, period: 5 * milli, qos: rule.QoS{Budget: 5 * milli, Late: rule.LateDrop},
		long: 10 * second,
		sees: func(a ledger.FrameCounters) bool { return a.Late > 0 && a.Delivered > 0 },
	},
	{
		name: "large, budget near the delay, sparse", link: "delay=10ms,rate=2mbit,loss=5%,reorder=5%,dup=5%", size: 5000, period: 300 * milli, qos: rule.QoS{Compress: rule.CompressNone, Budget: 40 * milli},
		long: 20 * second,
		sees: func(a ledger.FrameCounters) bool { return a.LateKept > 0 },
	},
	{
		name: "command", link: "delay=10ms,jitter=10ms,rate=100mbit,loss=10%,reorder=10%,dup=10%", size: 64, period: 5 * milli, qos: rule.QoS{Budget: 25 * milli, Class: rule.Command},
		sees: func(a ledger.FrameCounters) bool { return a.Late > 0 && a.LateKept == 0 },
	},
	{
		name: "command on a full link", link: "delay=10ms,rate=200kbit,queue=32KiB", size: 1000, period: 100 * milli, qos: rule.QoS{Budget: 60 * milli, Class: rule.Command},
		sees: func(a ledger.FrameCounters) bool { return a.Offered > 0 && a.LateKept == 0 && a.RateLimited == 0 },
	},
	{
		name: "mirror's lock held", link: "delay=10ms,rate=100mbit,loss=2%,dup=5%", size: 64, period: milli,
		at: map[time.Duration]func(f *flow){
			second:       func(f *flow) { damage.TakeLock(f.t, f.pc.dir, flowName) },
			1500 * milli: func(f *flow) { damage.FreeLock(f.t, f.pc.dir, flowName) },
		},
		sees: func(a ledger.FrameCounters) bool { return a.Superseded > 400 },
	},
	{
		name: "packed", link: "delay=10ms,rate=1mbit,loss=5%,queue=32KiB", size: 300_000, period: 50 * milli, qos: rule.QoS{Compress: rule.CompressZstd},
		sees: func(a ledger.FrameCounters) bool { return a.Delivered > 0 },
	},
	{
		name: "every", link: "delay=10ms,rate=10mbit,loss=2%", size: 200, period: 2 * milli, qos: rule.QoS{Mode: rule.Every},
		sees: func(a ledger.FrameCounters) bool {
			return a.Delivered > 9*a.Offered/10 && a.Delivered+a.Overflow == a.Offered
		}, // 16 frames cover 32 ms
	},
	{
		name: "every, more than the link takes", link: "delay=10ms,rate=1mbit,queue=32KiB", size: 1000, period: milli, qos: rule.QoS{Mode: rule.Every},
		sees: func(a ledger.FrameCounters) bool { return a.Overflow > 0 && a.Delivered+a.Overflow == a.Offered },
	},
	{
		name: "every, mirror's lock held", link: "delay=10ms,rate=10mbit", size: 200, period: 5 * milli, qos: rule.QoS{Mode: rule.Every},
		at: map[time.Duration]func(f *flow){
			second:       func(f *flow) { damage.TakeLock(f.t, f.pc.dir, flowName) },
			1500 * milli: func(f *flow) { damage.FreeLock(f.t, f.pc.dir, flowName) },
		},
		sees: func(a ledger.FrameCounters) bool { return a.Delivered > 0 },
	},
	{
		name: "quality changed", link: "delay=10ms,rate=100mbit,loss=2%", size: 64, period: milli,
		at: map[time.Duration]func(f *flow){
			500 * milli:  func(f *flow) { f.requalify(rule.QoS{MaxRate: 50_000}) },
			1000 * milli: func(f *flow) { f.change("delay=100ms"); f.requalify(rule.QoS{Budget: 5 * milli}) },
			1500 * milli: func(f *flow) { f.requalify(rule.QoS{Class: rule.Command}) },
			2000 * milli: func(f *flow) { f.requalify(rule.QoS{Budget: milli}) },
			2250 * milli: func(f *flow) { f.requalify(rule.QoS{Late: rule.LateDrop, Budget: milli}) },
			2500 * milli: func(f *flow) { f.requalify(rule.QoS{}) },
		},
		sees: func(a ledger.FrameCounters) bool { return a.RateLimited > 0 && a.Late > 0 && a.LateKept > 0 },
	},
}

// TestFrameCountersAddUp audits both nodes' frame counters. At every check the counters must add up. One
// second after the traffic both sides must have the same counters, which agree with shared memory.
func TestFrameCountersAddUp(t *testing.T) {
	for _, c := range countersCases {
		t.Run(c.name, func(t *testing.T) {
			inFlow(t, c.link, c.qos, c.size, func(f *flow) { c.audit(f) })
		})
	}
}

func (c countersCase) audit(f *flow) {
	elapsed := time.Duration(0)
	f.stream(c.period, cmp.Or(c.long, 3*second), func(at time.Duration) {
		if do := c.at[at]; do != nil {
			do(f)
		}
		if at >= elapsed {
			elapsed += 7 * milli
			f.balances()
		}
	})
	calm := second
	if strings.Contains(c.link, "loss") {
		calm = 4 * second // counter messages and the last value may be lost too
	}
	time.Sleep(calm)
	f.agrees()
	if a := f.robotSays(); !c.sees(a) {
		f.t.Errorf("the case has not happened: %+v", a)
	}
}

// balances checks that the counters of each node add up.
func (f *flow) balances() {
	f.t.Helper()
	for who, a := range map[string]ledger.FrameCounters{"robot": f.robotSays(), "pc": f.pcSays()} {
		if got := a.Settled() + a.InFlight; got != a.Offered {
			f.t.Fatalf("%s's accounts have %d frames offered and %d that something became of: %+v", who, a.Offered, got, a)
		}
		if a.Offered > f.puts() {
			f.t.Fatalf("%s's accounts have %d frames offered, and %d were put: %+v", who, a.Offered, f.puts(), a)
		}
	}
}

// When a link ends, frames in transit are lost, and so are the last counters. The mirror reports
// the outcome of those frames when it subscribes again. The counters cover both subscriptions, and
// every frame once.
func TestFrameCountersContinueAfterCut(t *testing.T) {
	sizes, kinds := []int{64}, []rule.QoS{{}, {Mode: rule.Every}}
	if need.IsLong() {
		sizes, kinds = append(sizes, 5000), append(kinds, rule.QoS{Budget: 15 * milli}, rule.QoS{Class: rule.Command}, rule.QoS{MaxRate: 20_000})
	}
	for _, size := range sizes {
		for _, qos := range kinds {
			t.Run(fmt.Sprintf("%d bytes, %+v", size, qos), func(t *testing.T) {
				inFlow(t, "delay=10ms,jitter=5ms,rate=100mbit,loss=2%", qos, size, func(f *flow) {
					f.goesOnAfter("robot", 5*second) // the link survives it
					f.goesOnAfter("robot", 15*second)
					f.goesOnAfter("pc>robot", 15*second) // frames still arrive, but the robot receives no acknowledgement
				})
			})
		}
	}
}

// goesOnAfter cuts a target for a while, and compares the counters some time later.
func (f *flow) goesOnAfter(target string, long time.Duration) {
	f.t.Helper()
	checks := 0
	check := func(time.Duration) {
		if checks++; checks%4 == 0 {
			f.balances()
		}
	}
	f.stream(5*milli, 1500*milli, check)
	f.changeAt(target, "cut")
	f.stream(5*milli, long, check)
	f.changeAt(target, "up")
	f.stream(5*milli, 3*second, check)
	f.within(5*second, "rest", func() bool { return f.robotSays().InFlight == 0 })
	time.Sleep(2 * second)
	f.agrees()
}

func TestCountersOfIdleChannelIgnoreReconnects(t *testing.T) {
	for _, qos := range []rule.QoS{{}, {Class: rule.Command}} {
		t.Run(qos.Class.String(), func(t *testing.T) {
			inFlow(t, "delay=10ms,rate=100mbit", qos, 64, func(f *flow) {
				f.change("cut")
				f.put()
				for range 3 {
					time.Sleep(10 * second)
					f.change("up")
					time.Sleep(5 * second)
					f.agrees()
					if got := f.kept(); got != map[rule.Class]uint64{rule.State: 1}[qos.Class] { // a late command is never put
						t.Errorf("got %d frames in the mirror", got)
					}
					f.change("cut")
				}
			})
		})
	}
}

func TestFrameCountersContinueAfterDaemonRestart(t *testing.T) {
	for _, qos := range []rule.QoS{{}, {Mode: rule.Every}} {
		for _, who := range []string{"pc", "robot"} {
			t.Run(who+" "+qos.Mode.String(), func(t *testing.T) {
				inWorld(t, func(w *world) {
					f := &flow{world: w, robot: w.host("robot", wire10ms), pc: w.host("pc", wire10ms), source: &putSource{}, size: 64}
					f.data = f.robot.channel("data", 16, 64)
					f.robot.run(Config{})
					f.pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "data", QoS: qos}}}, f.robot)
					w.within(2*second, "mirror", func() bool { return f.pc.mirror(flowName).State == status.MirrorLive })
					f.stream(5*milli, 2*second, func(time.Duration) { f.balances() })
					time.Sleep(second)
					before := f.robotSays()
					if who == "pc" {
						f.pc.stop()
						f.pc.run(f.pc.cfg, f.robot)
					} else {
						f.robot.stop()
						f.robot.run(f.robot.cfg)
					}
					w.within(10*second, "mirror", func() bool { return f.pc.mirror(flowName).State == status.MirrorLive })
					f.stream(5*milli, 2*second, func(time.Duration) { f.balances() })
					time.Sleep(2 * second)
					robot, pc := f.robotSays(), f.pcSays()
					if robot != pc {
						t.Errorf("the two sides differ:\nrobot %+v\npc    %+v", robot, pc)
					}
					want := f.puts()
					if who == "robot" {
						want -= before.Offered // the restarted robot has no earlier counters
					}
					if robot.Offered != want || robot.InFlight != 0 {
						t.Errorf("got %+v, want %d frames offered", robot, want)
					}
				})
			})
		}
	}
}

// The channel is made again while its mirror continues.
func TestFrameCountersContinueInNewEpoch(t *testing.T) {
	inFlow(t, "delay=10ms,rate=100mbit,loss=2%", rule.QoS{}, 64, func(f *flow) {
		look := func(time.Duration) { f.balances() }
		f.stream(milli, second, look)
		f.anew()
		time.Sleep(second)
		f.stream(milli, second, look)
		time.Sleep(second)
		f.agrees()
	})
}

// agrees compares the counters of both nodes with each other and with shared memory.
func (f *flow) agrees() {
	f.t.Helper()
	f.balances()
	robot, pc := f.robotSays(), f.pcSays()
	if robot != pc {
		f.t.Errorf("the two sides differ:\nrobot %+v\npc    %+v", robot, pc)
	}
	put := robot.Delivered + robot.LateKept
	if robot.Offered != f.puts() || put != f.kept() || robot.InFlight != 0 {
		f.t.Errorf("%d frames were put into the channel and %d into its mirror; the accounts say %+v", f.puts(), f.kept(), robot)
	}
}
