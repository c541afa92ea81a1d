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

// Screen has the properties of the terminal.
type Screen struct {
	Width, Height int
	Color         ui.Color
	Blocks        bool // block characters can be shown
}

// Sizes of a page. frameLines counts the lines besides curves and legend: title, blank line or note about
// omitted lines, unit, and two for the time axis.
const (
	frameLines = 5
	leastCurve = 4
	mostLabel  = 12 // width of a number at the axis, columns
)

// colors has a terminal colour for each line.
var colors = []asciigraph.AnsiColor{39, 208, 82, 201, 226, 51, 196, 250}

// marks distinguishes the lines on terminals without colours.
const marks = "*+xo#@%="

// Page returns the plot of the window that ends now.
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

// head returns the title with the frame rate and the age of the newest frame.
func (p *Plot) head(now time.Time, s Screen) string {
	text := s.Color.Paint("1", p.title)
	if p.frames > 0 {
		text += fmt.Sprintf("  %.1f Hz  newest frame %s ago", p.rate(), age(now.Sub(p.newest)))
	}
	return text
}

// age returns d as text, rounded so that it can be read while it changes.
func age(d time.Duration) string {
	if d = max(0, d); d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// legend returns each line's mark, name, newest number, and lowest and highest number in the window.
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

// number returns x as text of at most mostLabel columns.
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

// curves draws the lines and both axes in height lines of text. It passes numbers between 0 and 1 to the
// library, which counts rows in whole units of the plotted numbers.
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
			column[c] = min(1, max(0, (x-low)/(high-low))) // NaN is unchanged
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

// ticks returns the number of ticks on the time axis of a window, from 2 to most, such that the times between
// them have few digits.
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

// bounds returns the ends of the number axis for all lines. They are never equal.
func (p *Plot) bounds(now time.Time) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for i := range p.lines {
		if l, h, ok := p.span(i, now); ok {
			low, high = math.Min(low, l), math.Max(high, h)
		}
		for _, x := range p.columns(i, 1, now) { // the number at the start of the window
			if !math.IsNaN(x) {
				low, high = math.Min(low, x), math.Max(high, x)
			}
		}
	}
	switch {
	case low > high:
		return 0, 1
	case math.IsInf(high-low, 0): // the difference overflows
		return -math.MaxFloat64 / 2, math.MaxFloat64 / 2
	case high-low <= 1e-12*math.Max(math.Abs(low), math.Abs(high)):
		half := math.Max(1, math.Abs(low)) / 2
		return low - half, high + half
	}
	return low, high
}

// axisNumber returns x with enough digits to distinguish the labels of the axis.
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

// unit returns the unit of all lines, or "" if they have several.
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
