package top

import (
	"math"
	"slices"
	"strings"
)

// Ages over time as bars, in a row or on the page about one channel.

// scale is the age in ms that a bar of full height stands for: the greatest of the newest width
// ages, or a quarter of the budget if that is more. A few ages far above all others do not
// count, so that one peak does not flatten the rest: then it is the age that nine of ten have.
func (r channelRow) scale(width int) float64 {
	known := slices.DeleteFunc(slices.Clone(r.ages[max(0, len(r.ages)-width):]), math.IsNaN)
	if len(known) == 0 {
		return r.budget / 4
	}
	slices.Sort(known)
	most, usual := known[len(known)-1], known[len(known)*9/10]
	if most > farAbove*usual {
		most = usual
	}
	return max(most, r.budget/4)
}

// farAbove is how many times the usual age a peak is that does not fit into the scale.
const farAbove = 3

// The characters of a bar, from empty to full, and at last that of one beyond the scale.
var (
	blockLevels = []rune(" ▁▂▃▄▅▆▇█▲")
	asciiLevels = []rune(" _.-:=+*#^")
)

// bars draws the newest width values as bars, the newest on the right. It returns height
// lines. A value of most fills all of them, one beyond that has a mark at its top.
func (m model) bars(values []float64, width, height int, most float64) []string {
	levels := asciiLevels
	if m.screen.blocks {
		levels = blockLevels
	}
	full := len(levels) - 2
	values = values[max(0, len(values)-width):]
	lines := make([]string, height)
	for i := range lines {
		var b strings.Builder
		b.WriteString(strings.Repeat(" ", width-len(values)))
		below := (height - 1 - i) * full
		for _, v := range values {
			level := 0
			if v >= 0 && most > 0 {
				level = max(1, int(math.Round(v/most*float64(height*full))))
			}
			char := levels[max(0, min(level-below, full))]
			if i == 0 && v > most*1.01 {
				char = levels[full+1]
			}
			b.WriteRune(char)
		}
		lines[i] = b.String()
	}
	return lines
}
