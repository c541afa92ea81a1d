package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// writeTable prints the medians of a scenario's runs as Markdown, with a table for each
// kind of channel. Ratios are the medians of the turns' ratios.
func writeTable(w io.Writer, s scenario, tools []tool, results []result) {
	fmt.Fprintf(w, "### %s: %s\n\nLink `%s`, %v.\n", s.name, s.about, s.link, s.length)
	for i, g := range s.load {
		fmt.Fprintf(w, "\n| %v | age, mean | age / %s | age, p99 | delay p50 | p99 | max | lost | CPU time robot + PC |\n|---|---|---|---|---|---|---|---|---|\n", g, tools[0].name)
		for _, t := range tools {
			fmt.Fprintf(w, "| %s | %s |\n", t.name, strings.Join(row(i, tools[0].name, t.name, results), " | "))
		}
	}
	fmt.Fprintln(w, "\nTimes in ms; CPU time in ms a second, for all channels.")
	fmt.Fprintln(w)
}

// row returns the cells of a tool.
func row(group int, base, tool string, results []result) []string {
	all := func(value func(result) float64) (list []float64) {
		for _, r := range results {
			if r.Tool == tool && r.Err == "" {
				list = append(list, value(r))
			}
		}
		return list
	}
	if len(all(func(result) float64 { return 0 })) == 0 {
		return []string{reason(tool, results), "", "", "", "", "", "", ""}
	}
	cell := func(format string, value func(ageStats) float64) string {
		return fmt.Sprintf(format, median(all(func(r result) float64 { return value(r.Groups[group]) })))
	}
	share := "-"
	if ratios := ratios(group, base, tool, results); len(ratios) > 0 {
		share = fmt.Sprintf("%.2f", median(ratios))
	}
	return []string{
		cell("%.2f", func(f ageStats) float64 { return f.Age }),
		share,
		cell("%.2f", func(f ageStats) float64 { return f.AgeP99 }),
		cell("%.2f", func(f ageStats) float64 { return f.DelayP50 }),
		cell("%.2f", func(f ageStats) float64 { return f.DelayP99 }),
		cell("%.1f", func(f ageStats) float64 { return f.DelayMax }),
		cell("%.1f %%", func(f ageStats) float64 { return 100 * f.Lost }),
		fmt.Sprintf("%.0f + %.0f", median(all(func(r result) float64 { return r.CPU[0] })), median(all(func(r result) float64 { return r.CPU[1] }))),
	}
}

// ratios returns the ratios of a tool's mean ages to those of base in the same turn.
func ratios(group int, base, tool string, results []result) (list []float64) {
	for _, r := range results {
		i := slices.IndexFunc(results, func(o result) bool { return o.Tool == base && o.Turn == r.Turn })
		if r.Tool == tool && r.Err == "" && i >= 0 && results[i].Err == "" {
			list = append(list, r.Groups[group].Age/results[i].Groups[group].Age)
		}
	}
	return list
}

// reason returns why a tool has no figures.
func reason(tool string, results []result) string {
	for _, r := range results {
		if r.Tool == tool && r.Err != "" {
			first, _, _ := strings.Cut(r.Err, "\n")
			return first
		}
	}
	return "not run"
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
