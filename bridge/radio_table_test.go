package bridge

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
)

// radioTable collects the results. It is safe for concurrent use while rows are added.
type radioTable struct {
	links []radioLink
	mu    sync.Mutex
	rows  map[radioRow]map[string]map[uint64]radioSample // key: sender; inner key: seed
}

// radioRow is one line of the table. class is "" if the load has only one class.
type radioRow struct{ load, link, class string }

// radioSample is the result of one sender with one seed.
type radioSample struct {
	ages    stat    // ms
	carried float64 // Mbit/s, of the whole load
}

func newRadioTable(links []radioLink) *radioTable {
	return &radioTable{links: links, rows: map[radioRow]map[string]map[uint64]radioSample{}}
}

// add adds the ages of each channel, in ms, and the bytes carried.
func (table *radioTable) add(row radioRow, sender string, r radioRun, ages [][]float64, bytes int) {
	byClass := map[string][]float64{}
	for i, l := range r.loads {
		class := l.class
		if class == "" && len(r.loads) > 1 {
			class = l.channel
		}
		byClass[class] = append(byClass[class], cut(ages[i], window{"", warmUp, warmUp + r.length}, r.step())...)
	}
	table.mu.Lock()
	defer table.mu.Unlock()
	for class, all := range byClass {
		row.class = class
		senders := table.rows[row]
		if senders == nil {
			senders = map[string]map[uint64]radioSample{}
			table.rows[row] = senders
		}
		if senders[sender] == nil {
			senders[sender] = map[uint64]radioSample{}
		}
		senders[sender][r.seed] = radioSample{ageStat(all), float64(bytes) * 8 / 1e6 / r.length.Seconds()}
	}
}

// meanOf, p95Of, p99Of and carriedOf return one measure of a sample.
func meanOf(s radioSample) float64    { return s.ages.mean }
func p95Of(s radioSample) float64     { return s.ages.p95 }
func p99Of(s radioSample) float64     { return s.ages.p99 }
func carriedOf(s radioSample) float64 { return s.carried }

// mean returns the average over the seeds, NaN without samples.
func (table *radioTable) mean(row radioRow, sender string, of func(radioSample) float64) float64 {
	sum, n := 0.0, 0.0
	for _, s := range table.rows[row][sender] {
		sum, n = sum+of(s), n+1
	}
	return sum / n
}

// ratios returns the ratios to another sender, seed by seed.
func (table *radioTable) ratios(row radioRow, sender, to string, of func(radioSample) float64) (list []float64) {
	others := table.rows[row][to]
	for _, seed := range slices.Sorted(maps.Keys(table.rows[row][sender])) {
		if other, ok := others[seed]; ok {
			list = append(list, of(table.rows[row][sender][seed])/of(other))
		}
	}
	return list
}

// rowsOf returns the rows of a load and a class, in the order of links; "*" means any class.
func (table *radioTable) rowsOf(load, class string) (list []radioRow) {
	for row := range table.rows {
		if row.load == load && (class == "*" || class == row.class) {
			list = append(list, row)
		}
	}
	place := func(r radioRow) int {
		return slices.IndexFunc(table.links, func(l radioLink) bool { return l.name == r.link })
	}
	slices.SortFunc(list, func(a, b radioRow) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), strings.Compare(a.class, b.class))
	})
	return list
}

// geometric returns the geometric mean of a sender's ratios to the oracle over rows and seeds, NaN
// without ratios.
func (table *radioTable) geometric(rows []radioRow, sender string, of func(radioSample) float64) float64 {
	sum, n := 0.0, 0.0
	for _, row := range rows {
		for _, ratio := range table.ratios(row, sender, "oracle", of) {
			sum, n = sum+math.Log(ratio), n+1
		}
	}
	return math.Exp(sum / n)
}

// bestWindow returns the best constant window over the rows; "" if none was measured.
func (table *radioTable) bestWindow(rows []radioRow) (best string) {
	least := math.Inf(1)
	for _, s := range radioSenders {
		if mean := table.geometric(rows, s.name, meanOf); strings.HasPrefix(s.name, "window ") && mean < least {
			best, least = s.name, mean
		}
	}
	return best
}

// hindsight returns the best constant window for a link.
func (table *radioTable) hindsight(row radioRow) string {
	return table.bestWindow(slices.DeleteFunc(table.rowsOf(row.load, "*"), func(r radioRow) bool { return r.link != row.link }))
}

// print writes one table of each load, in Markdown. Its last lines are the geometric means
// of the ratios to the oracle.
func (table *radioTable) print(w io.Writer) {
	for _, load := range radioLoads {
		rows := table.rowsOf(load.name, "*")
		if len(rows) == 0 {
			continue
		}
		common := table.bestWindow(rows)
		columns := slices.Compact([]string{"oracle", "quic", "sctp", "window 1", common, "bbr", "copa", "sprout"})
		columns = slices.DeleteFunc(columns, func(c string) bool { // columns without results
			return !slices.ContainsFunc(rows, func(r radioRow) bool { return len(table.rows[r][c]) > 0 })
		})
		fmt.Fprintf(w, "%s: age in ms, mean / p95 / p99, and Mbit/s carried\n\n| link |", load.name)
		for _, c := range columns {
			fmt.Fprintf(w, " %s |", columnName(c))
		}
		if common != "" {
			fmt.Fprint(w, " best window for the link | quic to it |")
		}
		fmt.Fprintf(w, "\n|%s\n", strings.Repeat("---|", len(columns)+1+2*min(1, len(common))))
		for _, row := range rows {
			fmt.Fprintf(w, "| %s |", strings.TrimSpace(row.link+" "+row.class))
			for _, c := range columns {
				fmt.Fprintf(w, " %s |", table.cell(row, c))
			}
			best := table.hindsight(row)
			if best == "" {
				fmt.Fprintln(w)
				continue
			}
			fmt.Fprintf(w, " %s: %s | %.2f |\n", strings.TrimPrefix(best, "window "), table.cell(row, best), table.mean(row, "quic", meanOf)/table.mean(row, best, meanOf))
		}
		table.printMeans(w, load.name, columns)
	}
}

func columnName(sender string) string {
	switch {
	case sender == "window 1":
		return "stop and wait"
	case strings.HasPrefix(sender, "window "):
		return strings.TrimPrefix(sender, "window ") + " in flight"
	}
	return sender
}

func (table *radioTable) cell(row radioRow, sender string) string {
	if len(table.rows[row][sender]) == 0 {
		return ""
	}
	return fmt.Sprintf("%s / %s / %s, %s", figure(table.mean(row, sender, meanOf)), figure(table.mean(row, sender, p95Of)),
		figure(table.mean(row, sender, p99Of)), figure(table.mean(row, sender, carriedOf)))
}

// figure formats v, with a decimal below 100.
func figure(v float64) string {
	if v < 99.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func (table *radioTable) printMeans(w io.Writer, load string, columns []string) {
	var classes []string
	for _, row := range table.rowsOf(load, "*") {
		if !slices.Contains(classes, row.class) {
			classes = append(classes, row.class)
		}
	}
	for _, class := range classes {
		rows, name := table.rowsOf(load, class), "all"
		if eight := barLinks(rows); len(eight) == len(eightLinks) {
			rows, name = eight, "the eight"
		}
		fmt.Fprintf(w, "| %s |", strings.TrimSpace(fmt.Sprintf("ratio to the oracle, %s %s", name, class)))
		best := 0.0
		for _, c := range columns {
			fmt.Fprintf(w, " %s |", ratioCell(table.geometric(rows, c, meanOf), table.geometric(rows, c, p95Of)))
		}
		for _, row := range rows {
			best += math.Log(table.mean(row, table.hindsight(row), meanOf)/table.mean(row, "oracle", meanOf)) / float64(len(rows))
		}
		if !math.IsNaN(best) {
			fmt.Fprintf(w, " %.2f | |", math.Exp(best))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

func ratioCell(mean, p95 float64) string {
	if math.IsNaN(mean) {
		return ""
	}
	return fmt.Sprintf("%.2f / %.2f", mean, p95)
}
