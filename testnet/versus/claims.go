package main

import (
	"fmt"
	"io"
	"slices"
)

// claim is a paper's statement about Ach's delays, as a ratio of typical delays that can be
// measured on any machine.
type claim struct {
	paper, says string
	ratio       func(of func(setup) float64, rate int) float64 // the ratio in one turn
	least, most float64                                        // range of the ratio in which the claim is reproduced
	once        bool                                           // the claim covers both rates, so it is checked once
}

// about is the largest ratio of two delays that are about the same.
const about = 1.5

// claims are from Dantam and Stilman, Ach: IPC for Real-Time Robot Control (2011), and Robust
// and Efficient Communication for Real-Time Multi-Process Robot Software (Humanoids 2012), and
// from Dantam et al., Unix Philosophy and the Real World (Frontiers in Robotics and AI, 2016).
// Their claims about the worst case are not compared, since they used real-time kernels.
var claims = []claim{
	{"2012, Fig. 5", "Ach is about as fast as a pipe (Ach / pipe)", func(of func(setup) float64, rate int) float64 {
		return of(setup{"ach", rate, 1, 1}) / of(setup{"pipe", rate, 1, 1})
	}, 0, about, false},
	{"2016, Fig. 3", "Ach is about as fast as what POSIX has (Ach / median of pipe, local, udp, tcp, mq)", func(of func(setup) float64, rate int) float64 {
		var others []float64
		for _, means := range ipcMeans[1:] {
			others = append(others, of(setup{means, rate, 1, 1}))
		}
		return of(setup{"ach", rate, 1, 1}) / median(others)
	}, 0, about, false},
	{"2016, Fig. 3", "all means are similar (slowest / fastest)", func(of func(setup) float64, rate int) float64 {
		var all []float64
		for _, means := range ipcMeans {
			all = append(all, of(setup{means, rate, 1, 1}))
		}
		return slices.Max(all) / slices.Min(all)
	}, 0, about * about, false},
	{"2011, Fig. 3", "the typical delay does not depend on the rate (8 kHz / 1 kHz)", func(of func(setup) float64, _ int) float64 {
		return of(setup{"ach", 8000, 1, 1}) / of(setup{"ach", 1000, 1, 1})
	}, 1 / about, about, true},
	{"2012, Fig. 5", "it grows at most linearly: a further receiver costs no more than the first ((1x4 - 1x1) / 3 / 1x1)", func(of func(setup) float64, rate int) float64 {
		one := of(setup{"ach", rate, 1, 1})
		return (of(setup{"ach", rate, 1, 4}) - one) / 3 / one
	}, 0, about, false},
}

// writeClaims prints for each claim and rate whether it is reproduced.
func writeClaims(w io.Writer, all []delays) {
	fmt.Fprintln(w, "| paper | claim | Hz | measured | reproduced |\n|---|---|---|---|---|")
	for _, c := range claims {
		for i, rate := range ipcRates {
			if c.once && i > 0 {
				break
			}
			ratio, reproduced := c.compare(all, rate)
			word := "not"
			if reproduced {
				word = "reproduced"
			}
			fmt.Fprintf(w, "| %s | %s | %d | %.2f | %s |\n", c.paper, c.says, rate, ratio, word)
		}
	}
	fmt.Fprintln(w, "\nMeasured are ratios of typical delays, medians of those of each turn.")
}

// compare returns the median of the ratios of all turns, and whether it reproduces the claim.
func (c claim) compare(all []delays, rate int) (ratio float64, reproduced bool) {
	var ratios []float64
	for turn := 0; ; turn++ {
		of := map[setup]float64{}
		for _, d := range all {
			if d.Turn == turn {
				of[d.setup] = d.Typical
			}
		}
		if len(of) == 0 {
			break
		}
		ratios = append(ratios, c.ratio(func(c setup) float64 { return of[c] }, rate))
	}
	ratio = median(ratios)
	return ratio, ratio >= c.least && ratio <= c.most
}
