package top

import (
	"math"
	"slices"
	"strings"
)

// Ages over time as bars, in a row or on the page about one channel.

// scale returns the age in ms of a bar with full height: the greatest of the newest width ages, or a quarter of the
// budget if that is more. If a few ages are far above all others, it returns the age that nine of ten have, so that one
// peak does not flatten the rest.
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

// farAbove is the factor over the usual age from which a peak does not fit into the scale.
const farAbove = 3

// Characters of a bar, from empty to full; the last one marks a value beyond the scale.
var (
	blockLevels = []rune(" ▁▂▃▄▅▆▇█▲")
	asciiLevels = []rune(" _.-:=+*#^")
)

// bars draws the newest width values as bars, the newest on the right, and returns height lines. A value of most fills
// all lines; a greater one has a mark at its top.
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
