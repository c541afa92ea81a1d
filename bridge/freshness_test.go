package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
)

// notYet lists the bars that the engine does not reach. They are printed as "above the bar" and
// fail no test. To tighten a bar, delete its line.
var notYet = []string{
	// 242 to 254 by 26 or 27 packets of 9 ms (see transport/doc.go). The pacer cannot yet
	// distinguish a stall from a slower path.
	"rate step over sctp: state drop, 1st s max ms",
	// 0.045 to 0.077: one seed's camera is 30 ms older than the others'. The reason is unknown.
	// The mean is 427 to 437 ms; it was 428 before jitter was distinguished from a queue.
	"mixed overload over sctp: camera spread",
}

// scenario is one row of the table: the frames written at one end of a link, and the ages allowed
// at the other.
type scenario struct {
	name      string
	over      string // transport; filled in by TestFreshness
	link      string // both directions, in testnet's text form
	loads     []load
	length    time.Duration                 // duration of the measurement, after warmUp; 0 means 8 s
	readEvery time.Duration                 // interval at which the mirrors are read; 0 means 241 µs, which divides no period
	changes   []change                      // changes of the link, relative to the first frame
	windows   []window                      // windows of the measurement; nil means one from warmUp to the end
	alone     bool                          // measure each load on a link of its own too
	share     int                           // number of senders that share the rate, for the floor; 0 means 1
	daily     bool                          // measured in every run, not only in the long one
	back      time.Duration                 // when the link returns from an outage
	beside    func(b *bench, end time.Time) // other activity until end
	control   newControl                    // congestion control of the senders' links; nil means the node's own
	zero      time.Duration                 // earliest time of the first frame, by the network's clock
	spread    float64                       // largest spread of the seeds' means, relative; 0 means mostSpread
	bars      []bar
	quic      []bar // further bars, only for QUIC
	sctp      []bar
}

// load is one channel that a node of the sending host writes periodically. The phase of the first
// frame depends on the seed.
type load struct {
	channel string
	class   string // channels of a class share one line; "" means the channel's name
	size    int
	period  time.Duration
	start   time.Duration
	once    bool // a single frame
	node    int
	qos     rule.QoS
}

type change struct {
	at   time.Duration
	text string // for testnet.Network.Change
}

type window struct {
	name     string
	from, to time.Duration
}

// bar is the limit of a measure, for every seed.
type bar struct {
	class, window, what string
	limit               float64
}

// measures are the quantities that a bar can limit.
var measures = map[string]func(stat) float64{
	"mean/floor":        func(s stat) float64 { return s.mean / s.floor },
	"p99/floor":         func(s stat) float64 { return s.p99 / s.floor },
	"p99/p99 alone":     func(s stat) float64 { return s.p99 / s.alone },
	"max ms":            func(s stat) float64 { return s.max },
	"frames missing":    func(s stat) float64 { return float64(s.missing) },
	"frames seen":       func(s stat) float64 { return float64(s.arrivedFrames) },
	"frames too late":   func(s stat) float64 { return float64(s.late) },
	"frames unexcused":  func(s stat) float64 { return float64(s.unexcused) },
	"longest gap s":     func(s stat) float64 { return s.gap },
	"ms to first fresh": func(s stat) float64 { return s.fresh },
	"ms on the way":     func(s stat) float64 { return s.way },
}

// overs are the transports that every scenario uses.
var overs = []string{"quic", "sctp"}

const (
	allSeeds   = 5
	warmUp     = 2 * time.Second
	mostSpread = 0.02 // used wherever the mean has a bar
	second     = time.Second
	milli      = time.Millisecond
	priority7  = rule.Priority(8)
)

var (
	imu    = load{channel: "imu", size: 64, period: milli}
	state  = load{channel: "state", size: 1000, period: milli}
	first  = load{channel: "imu", size: 64, period: milli, qos: rule.QoS{Priority: priority7}}
	camera = load{channel: "camera", size: 100_000, period: 100 * milli, qos: image}
	image  = rule.QoS{Budget: second, Compress: rule.CompressNone}
)

var scenarios = []scenario{
	{name: "idle", daily: true, link: "delay=10ms,rate=100mbit", loads: []load{imu}, bars: []bar{{"imu", "", "mean/floor", 1.10}}},
	saturatedSmall("32KiB"),
	saturatedSmall("128KiB"),
	{
		name: "saturated large", link: "delay=1ms,rate=20mbit,queue=128KiB", bars: []bar{{"cloud", "", "mean/floor", 1.20}},
		loads: []load{{channel: "cloud", size: 50_000, period: 10 * milli, qos: image}},
	},
	{
		name: "rate step", link: "delay=10ms,rate=10mbit,queue=128KiB", loads: []load{state}, length: 15 * second,
		spread:  0.08, // 4 to 6 %: the delay without a queue is not known exactly after the drop
		changes: []change{{warmUp + 5*second, "rate=1mbit"}, {warmUp + 10*second, "rate=10mbit"}},
		windows: []window{
			{"10 Mbit/s", warmUp, warmUp + 5*second},
			{"drop, 1st s", warmUp + 5*second, warmUp + 6*second},
			{"1 Mbit/s", warmUp + 6*second, warmUp + 10*second},
			{"rise, 1st s", warmUp + 10*second, warmUp + 11*second},
			{"rise, after", warmUp + 11*second, warmUp + 15*second},
		},
		bars: []bar{{"state", "1 Mbit/s", "mean/floor", 1.3}, {"state", "rise, after", "mean/floor", 1.1}},
		// Nine runs of five seeds gave 232 to 244 ms. By chance one packet more or less of 9 ms
		// each is in transit when the rate falls. The bar has room for one more.
		quic: []bar{{"state", "drop, 1st s", "max ms", 255}},
		sctp: []bar{{"state", "drop, 1st s", "max ms", 250}},
	},
	{
		name: "longer way", link: "delay=2ms,rate=20mbit,queue=256KiB", loads: []load{first, camera}, length: 10 * second,
		changes: []change{{warmUp + 3*second, "delay=30ms"}},
		windows: []window{{"before", warmUp, warmUp + 3*second}, {"change, 2 s", warmUp + 3*second, warmUp + 5*second}, {"after", warmUp + 5*second, warmUp + 10*second}},
		bars:    []bar{{"imu", "after", "max ms", 80}, {"camera", "after", "longest gap s", 0.3}},
	},
	{
		name: "mixed", link: "delay=10ms,rate=20mbit,queue=256KiB", alone: true, loads: []load{first, camera},
		bars: []bar{{"imu", "", "p99/p99 alone", 1.6}, {"camera", "", "mean/floor", 1.2}, {"camera", "", "frames missing", 0}},
	},
	{
		name: "mixed overload", link: "delay=10ms,rate=20mbit,queue=256KiB", alone: true, spread: 0.05, // 0.4 to 3.1 %: the start of a camera frame depends on the feedback about the last
		loads: []load{first, {channel: "camera", size: 500_000, period: 100 * milli, qos: image}},
		bars:  []bar{{"imu", "", "p99/p99 alone", 2}, {"camera", "", "mean/floor", 1.3}},
	},
	{name: "loss 1%", link: "delay=10ms,rate=100mbit,loss=1%", loads: []load{imu}, bars: []bar{{"imu", "", "mean/floor", 1.10}}},
	{name: "loss 5%", link: "delay=10ms,rate=100mbit,loss=5%", loads: []load{imu}, bars: []bar{{"imu", "", "mean/floor", 1.10}}},
	{
		name: "loss, sparse", daily: true, link: "delay=10ms,rate=100mbit,loss=5%", length: 60 * second, readEvery: 997 * time.Microsecond,
		loads: []load{{channel: "pose", size: 64, period: 200 * milli, qos: rule.QoS{Budget: 150 * milli}}},
		bars:  []bar{{"pose", "", "frames unexcused", 0}},
	},
	{
		name: "loss, large", daily: true, link: "delay=10ms,rate=50mbit,loss=1%", // QUIC's own congestion control is the limit
		sctp:  []bar{{"camera", "", "frames missing", 4}}, // at least 95 % of 80 frames arrive in time
		loads: []load{{channel: "camera", size: 100_000, period: 100 * milli, qos: rule.QoS{Budget: 250 * milli, Compress: rule.CompressNone}}},
	},
	{
		name: "outage", daily: true, link: "delay=10ms,rate=100mbit", loads: []load{imu}, length: 5 * second,
		changes: []change{{warmUp, "cut"}, {warmUp + 3*second, "up"}}, back: warmUp + 3*second,
		bars: []bar{{"imu", "", "ms to first fresh", 150}, {"imu", "", "frames too late", 0}},
	},
	{name: "thirty channels", link: "delay=2500us,rate=10mbit,queue=128KiB", loads: humanoid(), length: 4 * second, bars: []bar{
		{"balance", "", "longest gap s", 1}, {"joint", "", "longest gap s", 1}, {"scan", "", "longest gap s", 1}, {"camera", "", "longest gap s", 1}}},
	{
		name: "two nodes", link: "delay=10ms,rate=2mbit,queue=64KiB", share: 2, length: 28 * second, spread: 0.05, // 0.5 to 4 %
		loads: []load{
			{channel: "state", class: "first", size: 1000, period: milli},
			{channel: "state", class: "second", size: 1000, period: milli, start: 5 * second, node: 1},
		},
		windows: []window{{"", 10 * second, 30 * second}},
		bars:    []bar{{"first", "", "mean/floor", 1.4}, {"second", "", "mean/floor", 1.4}},
	},
	{
		name: "one value, once", daily: true, link: "delay=10ms,rate=100mbit,loss=5%", length: 2 * second,
		loads: []load{
			{channel: "goal", size: 64, period: milli, start: warmUp, once: true},
			{channel: "stop", size: 64, period: milli, start: warmUp, once: true, qos: rule.QoS{Class: rule.Command}},
		},
		changes: []change{{warmUp + milli, "cut"}, {warmUp + 301*milli, "up"}},
		windows: []window{{"", warmUp, warmUp + 2*second}},
		bars:    []bar{{"goal", "", "frames missing", 0}, {"goal", "", "ms on the way", 2000}, {"stop", "", "frames seen", 0}},
	},
}

func saturatedSmall(queue string) scenario {
	return scenario{
		name: "saturated small " + queue, daily: queue == "32KiB", link: "delay=10ms,rate=1mbit,queue=" + queue, loads: []load{state},
		bars: []bar{{"state", "", "mean/floor", 1.20}, {"state", "", "p99/floor", 1.6}},
	}
}

// humanoid returns thirty channels like those of a robot. The channels of the balance controller
// have the highest priority.
func humanoid() (loads []load) {
	for i := range 20 {
		l := load{channel: fmt.Sprintf("joint%02d", i), class: "joint", size: 64, period: milli}
		if i < 2 {
			l.class, l.qos.Priority = "balance", priority7
		}
		loads = append(loads, l)
	}
	for i := range 9 {
		loads = append(loads, load{channel: fmt.Sprintf("scan%d", i), class: "scan", size: 3000, period: 5 * milli, qos: rule.QoS{Compress: rule.CompressNone}})
	}
	return append(loads, load{channel: "camera", size: 300_000, period: 100 * milli, qos: image})
}

// TestFreshness measures how old mirrors are, compared with the optimum for the link. It uses virtual
// time, real nodes, quic-go and pion/sctp. The seed determines the link's losses and the sources'
// phases. Some chance remains: the order of goroutines, QUIC's connection ids, and skipped packet
// numbers. These use global randomness, which parallel tests cannot seed. They move a mean by less
// than the asserted spread.
func TestFreshness(t *testing.T) {
	lines := make([]strings.Builder, len(overs)*len(scenarios))
	t.Cleanup(func() {
		fmt.Fprintf(t.Output(), "%-24s %-4s %-8s %-12s %8s %8s %8s %6s %8s %8s %8s %7s\n", "scenario", "over", "channel", "window",
			"floor", "formula", "mean", "ratio", "p99", "max ms", "per s", "spread")
		for i := range lines {
			fmt.Fprint(t.Output(), lines[i].String())
		}
	})
	for i, s := range scenarios {
		for j, over := range overs {
			s := s
			s.over = over
			line := &lines[i*len(overs)+j]
			t.Run(s.name+"/"+over, func(t *testing.T) {
				t.Parallel()
				r := s.measure(t)
				r.print(line)
				r.judge(t, line)
			})
		}
	}
}

func (r *results) print(b *strings.Builder) {
	for _, k := range r.keys {
		if slices.ContainsFunc(r.s.loads, func(l load) bool { return l.once }) {
			break // one frame has no mean age
		}
		m, worst := r.sum(k)
		fmt.Fprintf(b, "%-24s %-4s %-8s %-12s %8.2f %8.2f %8.2f %6.2f %8.2f %8.2f %8.1f %6.1f%%\n", r.s.name, r.s.over, k.class, k.window,
			m.floor, m.formula, m.mean, m.mean/m.floor, worst.p99, worst.max, m.perSecond, 100*r.spread(k))
	}
}

// judge compares the results with the bars.
func (r *results) judge(t *testing.T, b *strings.Builder) {
	more := r.s.quic
	if r.s.over == "sctp" {
		more = r.s.sctp
	}
	for _, bar := range slices.Concat(r.s.bars, more) {
		k := key{bar.class, bar.window}
		var got []float64
		for _, s := range r.stats[k] {
			got = append(got, measures[bar.what](s))
		}
		r.hold(t, b, bar, got)
		if bar.what == "mean/floor" {
			bar.what, bar.limit = "spread", cmp.Or(r.s.spread, mostSpread)
			r.hold(t, b, bar, []float64{r.spread(k)})
		}
	}
}

// title returns the name of the row, with the transport unless that is QUIC.
func (r *results) title() string {
	if r.s.over == "quic" {
		return r.s.name
	}
	return r.s.name + " over " + r.s.over
}

// hold compares one bar with the result of every seed.
func (r *results) hold(t *testing.T, b *strings.Builder, is bar, got []float64) {
	name := strings.Join(strings.Fields(fmt.Sprintf("%s: %s %s %s", r.title(), is.class, is.window, is.what)), " ")
	within := slices.Max(got) <= is.limit
	switch known := slices.Contains(notYet, name); {
	case within && known:
		fmt.Fprintf(b, "    reached: %s %.2f, at most %v: delete it from notYet\n", name, got, is.limit)
	case within:
		fmt.Fprintf(b, "    %s %.2f, at most %v\n", name, got, is.limit)
	case known:
		fmt.Fprintf(b, "    above the bar: %s %.2f, want at most %v\n", name, got, is.limit)
	default:
		t.Errorf("%s: got %.2f with the seeds, want at most %v", name, got, is.limit)
	}
}
