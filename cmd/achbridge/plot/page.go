package plot

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/guptarohit/asciigraph"

	"achbridge/cmd/achbridge/ui"
)

// Screen describes the terminal for which a page is drawn.
type Screen struct {
	Width, Height int
	Color         ui.Color
	Blocks        bool // the terminal can show more than ASCII
}

// Lines of a page beside the curves and the legend: the title, a blank line or what is left out, the
// unit, and two of the axis of time.
const (
	frameLines = 5
	leastCurve = 4
	mostLabel  = 12 // columns of a number at the axis
)

// colors of the lines, of the 256 that terminals have.
var colors = []asciigraph.AnsiColor{39, 208, 82, 201, 226, 51, 196, 250}

// marks tell the lines apart where there are no colours.
const marks = "*+xo#@%="

// Page returns the plot of the window that ends now, as text for the screen s.
func (p *Plot) Page(now time.Time, s Screen) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := append([]string{p.head(now, s)}, p.legend(now, s)...)
	if p.unfit > 0 {
		lines = append(lines, s.Color.Paint("31", fmt.Sprintf("left out: %d; %v", p.unfit, p.why)))
	} else {
		lines = append(lines, "")
	}
	switch {
	case p.frames == 0:
		lines = append(lines, "no frame yet")
	case len(p.lines) == 0:
		lines = append(lines, "no number yet")
	default:
		lines = append(lines, p.curves(now, s, s.Height-len(p.lines)-frameLines)...)
	}
	lines = lines[:min(len(lines), max(1, s.Height))]
	for i, l := range lines {
		lines[i] = strings.TrimRight(ansi.Truncate(l, s.Width, ""), " ")
	}
	return strings.Join(lines, "\n")
}

// head returns the line with the title, the rate, and the age of the newest frame.
func (p *Plot) head(now time.Time, s Screen) string {
	text := s.Color.Paint("1", p.title)
	if p.frames > 0 {
		text += fmt.Sprintf("  %.1f Hz  newest frame %s ago", p.rate(), age(now.Sub(p.newest)))
	}
	return text
}

// age returns d as text, rounded so that it is readable while it changes.
func age(d time.Duration) string {
	if d = max(0, d); d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// legend returns the mark, name, newest number, and range in the window for each line of the plot.
func (p *Plot) legend(now time.Time, s Screen) (lines []string) {
	width := 0
	for _, l := range p.lines {
		width = max(width, len(l.path))
	}
	for i, l := range p.lines {
		text := fmt.Sprintf("%s  %-*s  ", p.mark(i, s), width, l.path)
		low, high, ok := p.span(i, now)
		if ok {
			text += fmt.Sprintf("%-*s  from %s to %s", mostLabel, number(p.slots[len(p.slots)-1].last[i]), number(low), number(high))
		}
		lines = append(lines, text+" "+l.unit)
	}
	return lines
}

func (p *Plot) mark(i int, s Screen) string {
	switch {
	case bool(s.Color) && s.Blocks:
		return fmt.Sprintf("\x1b[38;5;%dm──\x1b[0m", colors[i])
	case s.Blocks && i == 0:
		return "──"
	}
	return strings.Repeat(marks[i:i+1], 2)
}

// number returns x as text, in at most mostLabel columns.
func number(x float64) string {
	if math.IsNaN(x) {
		return "-"
	}
	text := strconv.FormatFloat(x, 'g', -1, 64)
	if len(text) > 8 {
		text = strconv.FormatFloat(x, 'g', 5, 64)
	}
	return text
}

// curves draws the lines of the plot with both axes, in height lines of text. It scales all numbers to
// 0 to 1, because the library computes the rows from whole numbers.
func (p *Plot) curves(now time.Time, s Screen, height int) []string {
	low, high := p.bounds(now)
	label := func(x float64) string {
		return fmt.Sprintf("%*s", mostLabel, axisNumber(low+x*(high-low), high-low))
	}
	width := max(20, s.Width-mostLabel-4)
	var data [][]float64
	for i := range p.lines {
		column := p.columns(i, width, now)
		for c, x := range column {
			column[c] = min(1, max(0, (x-low)/(high-low))) // NaN stays
		}
		data = append(data, column)
	}
	seconds := p.window.Seconds()
	options := []asciigraph.Option{
		asciigraph.Height(max(leastCurve, height) - 1), asciigraph.LowerBound(0), asciigraph.UpperBound(1), asciigraph.YAxisValueFormatter(label),
		asciigraph.XAxisRange(-seconds, 0), asciigraph.XAxisTickCount(ticks(seconds, min(9, s.Width/16))),
		asciigraph.XAxisValueFormatter(func(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) + " s" }),
		asciigraph.SeriesChars(p.chars(s)...),
	}
	if bool(s.Color) && s.Blocks {
		options = append(options, asciigraph.SeriesColors(colors[:len(p.lines)]...))
	}
	text := asciigraph.PlotMany(data, options...)
	if !s.Blocks {
		text = strings.NewReplacer("┤", "|", "┼", "+", "└", "+", "┬", "+", "─", "-").Replace(text)
	}
	lines := strings.Split(text, "\n")
	if unit := p.unit(); unit != "" {
		lines = append([]string{fmt.Sprintf("%*s", mostLabel, unit)}, lines...)
	}
	return lines
}

// ticks returns the number of ticks on the time axis: at most most, such that the times between them have
// few digits, and at least the two ends.
func ticks(seconds float64, most int) int {
	for n := most; n > 2; n-- {
		step := seconds / float64(n-1)
		halves := 2 * step / math.Pow(10, math.Floor(math.Log10(step)))
		if math.Abs(halves-math.Round(halves)) < 1e-9 {
			return n
		}
	}
	return 2
}

// bounds returns the ends of the axis of numbers, which includes all lines. The ends always differ.
func (p *Plot) bounds(now time.Time) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for i := range p.lines {
		if l, h, ok := p.span(i, now); ok {
			low, high = math.Min(low, l), math.Max(high, h)
		}
		for _, x := range p.columns(i, 1, now) { // the value at the beginning of the window
			if !math.IsNaN(x) {
				low, high = math.Min(low, x), math.Max(high, x)
			}
		}
	}
	switch {
	case low > high:
		return 0, 1
	case math.IsInf(high-low, 0): // the span overflows float64
		return -math.MaxFloat64 / 2, math.MaxFloat64 / 2
	case high-low <= 1e-12*math.Max(math.Abs(low), math.Abs(high)):
		half := math.Max(1, math.Abs(low)) / 2
		return low - half, high + half
	}
	return low, high
}

// axisNumber returns x as text, with enough digits to distinguish the labels of an axis of length span.
func axisNumber(x, span float64) string {
	digits := int(math.Ceil(2 - math.Log10(span)))
	if text := strconv.FormatFloat(x, 'f', max(0, digits), 64); digits < 10 && len(text) <= mostLabel {
		if strings.Trim(text, "-0.") == "" {
			return strings.TrimPrefix(text, "-")
		}
		return text
	}
	return strconv.FormatFloat(x, 'g', 5, 64)
}

// unit returns the unit of all lines, or "" if the units differ.
func (p *Plot) unit() string {
	for _, l := range p.lines {
		if l.unit != p.lines[0].unit {
			return ""
		}
	}
	return p.lines[0].unit
}

func (p *Plot) chars(s Screen) (list []asciigraph.CharSet) {
	for i := range p.lines {
		set := asciigraph.DefaultCharSet
		if !s.Blocks || !bool(s.Color) && i > 0 {
			set = asciigraph.CreateCharSet(marks[i : i+1])
		}
		list = append(list, set)
	}
	return list
}
