package bridge

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/testnet"
	"achbridge/testnet/need"
)

// patience is the budget of all frames here, so that no frame expires.
const patience = 2 * second

// radioZero is the time of the first frame, by the network's clock. The nodes are connected by
// then, and all senders meet the same radio conditions.
const radioZero = 3 * second

// radioLoad is a set of loads. Channels of a class share one line.
type radioLoad struct {
	name  string
	loads []load
}

var radioLoads = []radioLoad{
	{"imu", []load{patient(first)}},
	{"state", []load{patient(state)}},
	{"camera", []load{patient(load{channel: "camera", size: 50_000, period: second / 30, qos: image})}},
	{"mixed", []load{patient(first), patient(load{channel: "camera", size: 500_000, period: 100 * milli, qos: image})}},
	{"humanoid", radioHumanoid()},
}

func patient(l load) load {
	l.qos.Budget = patience
	return l
}

// radioHumanoid returns the loads of humanoid with a tenth scan.
func radioHumanoid() (loads []load) {
	scan := load{channel: "scan9", class: "scan", size: 3000, period: 5 * milli, qos: rule.QoS{Compress: rule.CompressNone}}
	for _, l := range append(humanoid(), scan) {
		loads = append(loads, patient(l))
	}
	return loads
}

// radioLink is a link in testnet's text form. Params.Back has its return path.
type radioLink struct {
	name  string
	text  string
	trace bool // each seed begins at another position of the trace
}

var syntheticLinks = []radioLink{
	{name: "stall-5ms", text: "rate=10mbit,delay=10ms,queue=512KiB,stall=5ms/25ms"},
	{name: "stall-30ms", text: "rate=20mbit,delay=5ms,queue=512KiB,stall=30ms/200ms"},
	{name: "fade", text: "rate=7mbit,delay=20ms,queue=2MiB,fade=20s/10s/12kbit"},
	{name: "wifi-good", text: "delay=1ms,queue=512KiB,wifi=good,air=cell"},
	{name: "wifi-busy", text: "delay=1ms,queue=512KiB,wifi=busy,air=cell"},
	{name: "wifi-edge", text: "delay=1ms,queue=512KiB,wifi=edge,air=cell"},
}

// recordedLinks are the recorded traces that radioBars has limits for. The first four are from mahimahi, the last from
// Cellular-Traces-NYC.
var recordedLinks = []string{"Verizon-LTE-short.up", "Verizon-LTE-short.down", "ATT-LTE-driving.up", "ATT-LTE-driving.down", "nyc-trace-2767958-taxi1"}

// radioLinks returns the available links, and a text about the missing ones.
func radioLinks(t *testing.T) (list []radioLink, missing string) {
	t.Helper()
	list = slices.Clone(syntheticLinks)
	dir, lacks := os.Getenv("ACHBRIDGE_TRACES"), slices.Clone(recordedLinks)
	var files []string
	if dir != "" {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatalf("ACHBRIDGE_TRACES: %v; right is a directory of traces", err)
		}
		for _, e := range entries {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".gz")
		list = append(list, radioLink{name: name, text: "delay=20ms,queue=2MiB,trace=" + file, trace: true})
		lacks = slices.DeleteFunc(lacks, func(s string) bool { return s == name })
	}
	for entry := range strings.SplitSeq(os.Getenv("ACHBRIDGE_RADIO"), ";") {
		name, text, ok := strings.Cut(entry, ":")
		if entry == "" {
			continue
		}
		if _, err := testnet.ParseParams(text); !ok || err != nil {
			t.Fatalf("ACHBRIDGE_RADIO: %q: %v; right is NAME:LINK;NAME:LINK with links such as rate=5mbit,delay=20ms", entry, err)
		}
		list = append(list, radioLink{name: strings.TrimSpace(name), text: text})
	}
	if len(lacks) > 0 {
		missing = fmt.Sprintf("left out, since ACHBRIDGE_TRACES=%q has no such file: %s", dir, strings.Join(lacks, ", "))
	}
	return list, missing
}

// radioRun is one load over one link with one seed.
type radioRun struct {
	loads  []load
	phases []time.Duration
	text   string
	params testnet.Params
	seed   uint64
	length time.Duration
}

func newRadioRun(t *testing.T, load radioLoad, link radioLink, seed uint64) radioRun {
	t.Helper()
	r := radioRun{loads: load.loads, text: link.text, seed: seed, length: radioLength()}
	if link.trace {
		r.text += fmt.Sprintf(",from=%ds", 10+37*(seed-1))
	}
	var err error
	if r.params, err = testnet.ParseParams(r.text); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 1)) // like the node's
	for _, l := range r.loads {
		r.phases = append(r.phases, time.Duration(random.Int64N(int64(l.period))))
	}
	return r
}

// step returns the interval at which mirrors are sampled.
func (r radioRun) step() time.Duration { return r.scenario("").step() }

func (r radioRun) scenario(over string) scenario {
	return scenario{over: over, link: r.text, loads: r.loads, length: r.length, zero: radioZero}
}

// everydayRadio are the rows of the daily run; all others run only if the test is named.
var everydayRadio = map[string][]string{
	"imu":    {"stall-5ms", "wifi-busy"},
	"state":  {"stall-5ms", "wifi-good"},
	"camera": {"stall-5ms", "wifi-busy"},
}

// radioNamed reports whether the test was requested by name.
func radioNamed() bool {
	return strings.Contains(flag.Lookup("test.run").Value.String(), "TestRadio")
}

// radioLength returns the duration of the measurement, after warmUp.
func radioLength() time.Duration {
	if radioNamed() {
		return 20 * second
	}
	return 8 * second
}

func radioSeeds(t *testing.T) uint64 {
	text := os.Getenv("ACHBRIDGE_SEEDS")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		t.Fatalf("ACHBRIDGE_SEEDS: %q is not a number of seeds; right is 1 or more", text)
	}
	return n
}

// TestRadio measures, in virtual time, how old mirrors are over links that stall, fade and burst.
// It compares the node with an oracle that knows the link, and with other senders inside the node.
// If named on the command line, it runs all loads over all available links, with ACHBRIDGE_LONG=1 also the other senders:
//
//	go test ./bridge -run TestRadio -v
//	go test ./bridge -run TestRadio/camera/wifi-busy/quic -v
//
// ACHBRIDGE_TRACES=DIR adds the traces in a directory, ACHBRIDGE_RADIO='NAME:LINK;…' adds links,
// and ACHBRIDGE_SEEDS=3 sets the number of seeds.
func TestRadio(t *testing.T) {
	measured(t)
	links, missing := radioLinks(t)
	table := newRadioTable(links)
	t.Cleanup(func() {
		table.print(t.Output())
		fmt.Fprintln(t.Output(), missing)
		table.judge(t)
	})
	for _, load := range radioLoads {
		t.Run(load.name, func(t *testing.T) {
			for _, link := range links {
				if radioNamed() || slices.Contains(everydayRadio[load.name], link.name) {
					t.Run(link.name, func(t *testing.T) { table.measure(t, load, link) })
				}
			}
		})
	}
}

// measure runs the row: the node over each transport and, in the long run of the named test, the other senders.
func (table *radioTable) measure(t *testing.T, load radioLoad, link radioLink) {
	seeds := radioSeeds(t)
	each := func(name string, f func(t *testing.T, r radioRun)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				f(t, newRadioRun(t, load, link, seed))
			}
		})
	}
	row := radioRow{load: load.name, link: link.name}
	overs := []string{"quic"}
	if radioNamed() && (load.name == "camera" || load.name == "mixed") {
		overs = append(overs, "sctp")
	}
	for _, over := range overs {
		each(over, func(t *testing.T, r radioRun) {
			b := table.play(t, row, r, over, over, nil)
			least, bytes := r.oracle(b.zero)
			table.add(row, "oracle", r, least, bytes)
		})
	}
	if !radioNamed() || !need.IsLong() {
		return
	}
	for _, s := range radioSenders {
		each(s.name, func(t *testing.T, r radioRun) { table.play(t, row, r, s.name, "quic", s.control) })
	}
}

// play runs the node. control replaces its Pacer; nil keeps it.
func (table *radioTable) play(t *testing.T, row radioRow, r radioRun, sender, over string, control newControl) *bench {
	s := r.scenario(over)
	s.control = control
	readers, b := s.run(t, r.seed)
	var ages [][]float64
	for _, a := range readers {
		ages = append(ages, a.ages)
	}
	table.add(row, sender, r, ages, b.carried)
	return b
}
