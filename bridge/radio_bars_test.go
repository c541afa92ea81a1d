package bridge

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// radioNotYet lists the bars that the node does not reach. They are printed and fail no test. To
// tighten a bar, delete its line. A star matches any row.
var radioNotYet = []string{
	"imu ATT-LTE-driving.down: mean",
	"imu fade: p95",
	"imu fade: mean",
	"imu ATT-LTE-driving.down: p95",
	"state wifi-edge: p95",
	"state Verizon-LTE-short.up: p95",
	"state Verizon-LTE-short.down: p95", "state Verizon-LTE-short.down: mean",
	"camera Verizon-LTE-short.down: p95",
	"camera Verizon-LTE-short.down: mean over sctp", "camera Verizon-LTE-short.down: p95 over sctp",
	"camera Verizon-LTE-short.up: p95 over sctp",
	"humanoid balance: geometric mean",
	"camera Verizon-LTE-short.up: mean over sctp",
	// The rows that miss the bars.
	"imu *: mean to stop and wait",
	"imu *: mean to the best window",
	"state *: mean to stop and wait",
	"state *: mean to the best window",
	"camera *: mean to the best window",
	"mixed *: mean to stop and wait",
	"mixed *: mean to the best window",
	"humanoid *: mean to stop and wait",
	"humanoid *: mean to the best window",
	"camera *: mean to the best window over sctp",
	"mixed *: mean to stop and wait over sctp",
	"mixed *: mean to the best window over sctp",
}

// radioBar limits the age relative to the oracle's, on average and at the 95th percentile, for
// every seed. It also limits the carried data relative to the oracle's, from below.
type radioBar struct {
	load      string
	links     []string
	mean, p95 float64
	carried   float64
}

var (
	stalling   = []string{"stall-5ms", "stall-30ms"}
	verizon    = []string{"Verizon-LTE-short.up", "Verizon-LTE-short.down"}
	eightLinks = append(append(slices.Clone(stalling), "wifi-good", "wifi-busy", "wifi-edge", "nyc-trace-2767958-taxi1"), verizon...) // those without outages
)

var radioBars = []radioBar{
	{load: "imu", links: append(slices.Clone(stalling), "wifi-good"), mean: 1.05, p95: 1.1},
	{load: "imu", links: verizon, mean: 1.25, p95: 1.5},
	{load: "imu", links: []string{"wifi-busy", "wifi-edge"}, mean: 1.4, p95: 1.5},
	{load: "imu", links: []string{"ATT-LTE-driving.down", "fade"}, mean: 3, p95: 3},
	{load: "state", links: append(slices.Clone(stalling), "wifi-good"), mean: 1.2, p95: 1.4},
	{load: "state", links: verizon, mean: 1.5, p95: 1.7},
	{load: "state", links: []string{"wifi-busy", "wifi-edge"}, mean: 1.7, p95: 1.7},
	{load: "camera", links: stalling, mean: 1.15, p95: 1.15},
	{load: "camera", links: []string{"wifi-good", "wifi-edge"}, mean: 1.35, p95: 1.3},
	{load: "camera", links: []string{"wifi-busy"}, mean: 1.5, p95: 1.5},
	{load: "camera", links: append(slices.Clone(verizon), "nyc-trace-2767958-taxi1"), mean: 1.6, p95: 1.8, carried: 0.6},
}

// radioMeans limit the geometric mean over the eight links without outages.
var radioMeans = []struct {
	load, class string
	most        float64
}{
	{"imu", "", 1.2}, {"state", "", 1.4}, {"camera", "", 1.25},
	{"mixed", "imu", 1.45}, {"mixed", "camera", 1.5},
	{"humanoid", "balance", 1.45}, {"humanoid", "joint", 1.6}, {"humanoid", "scan", 1.55}, {"humanoid", "camera", 1.4},
}

// mostBehind is the largest age of any row relative to a simple sender's.
const mostBehind = 1.15

// barLinks returns the rows of the eight links.
func barLinks(rows []radioRow) []radioRow {
	return slices.DeleteFunc(slices.Clone(rows), func(r radioRow) bool { return !slices.Contains(eightLinks, r.link) })
}

// judge compares the results with the bars, which QUIC and SCTP share.
func (table *radioTable) judge(t *testing.T) {
	for _, over := range overs {
		for _, bar := range radioBars {
			for _, row := range table.rowsOf(bar.load, "*") {
				if slices.Contains(bar.links, row.link) {
					table.holdRow(t, bar, row, over)
				}
			}
		}
		for _, m := range radioMeans {
			rows := barLinks(table.rowsOf(m.load, m.class))
			if len(rows) == len(eightLinks) {
				hold(t, radioTitle(radioRow{m.load, "", m.class}, over, "geometric mean"), table.geometric(rows, over, meanOf), m.most)
			}
		}
		for _, load := range radioLoads {
			rows := table.rowsOf(load.name, "*")
			common := table.bestWindow(rows)
			for _, row := range rows {
				hold(t, radioTitle(row, over, "mean to stop and wait"), worst(table.ratios(row, over, "window 1", meanOf)), mostBehind)
				hold(t, radioTitle(row, over, "mean to the best window"), worst(table.ratios(row, over, common, meanOf)), mostBehind)
			}
		}
	}
}

func (table *radioTable) holdRow(t *testing.T, bar radioBar, row radioRow, over string) {
	hold(t, radioTitle(row, over, "mean"), worst(table.ratios(row, over, "oracle", meanOf)), bar.mean)
	hold(t, radioTitle(row, over, "p95"), worst(table.ratios(row, over, "oracle", p95Of)), bar.p95)
	if carried := table.ratios(row, over, "oracle", carriedOf); bar.carried > 0 && len(carried) > 0 {
		hold(t, radioTitle(row, over, "carried, too little"), 1/slices.Min(carried), 1/bar.carried)
	}
}

// worst returns the largest of the seeds' values, NaN if there are none.
func worst(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	return slices.Max(list)
}

func radioTitle(row radioRow, over, what string) string {
	title := strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", row.load, row.link, row.class)), " ") + ": " + what
	if over != "quic" {
		title += " over " + over
	}
	return title
}

// radioRoom is a tolerance for differences between runs. Even in virtual time the order of two
// events at the same instant is random.
const radioRoom = 1.1

// hold checks one bar. It accepts missing results. A result above the bar fails only beyond
// radioRoom.
func hold(t *testing.T, title string, got, most float64) {
	named := slices.Contains(radioNotYet, title)
	known := named || slices.ContainsFunc(radioNotYet, func(pattern string) bool {
		begin, end, star := strings.Cut(pattern, "*")
		return star && strings.HasPrefix(title, begin) && strings.HasSuffix(title, end)
	})
	switch {
	case math.IsNaN(got):
	case got <= most && named:
		fmt.Fprintf(t.Output(), "reached: %s %.2f, at most %.2f: delete it from radioNotYet\n", title, got, most)
	case got > most && (known || got <= most*radioRoom):
		fmt.Fprintf(t.Output(), "above the bar: %s %.2f, want at most %.2f\n", title, got, most)
	case got > most:
		t.Errorf("%s: got %.2f, want at most %.2f", title, got, most)
	}
}
