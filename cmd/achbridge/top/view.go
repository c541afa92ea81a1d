package top

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
)

// Lines of a page beside the rows: two about the host, one blank or about the daemon
// that does not answer, the header; the newest event, and what keys do.
const (
	headLines = 4
	footLines = 2
)

// room is how many rows fit.
func (m model) room() int { return max(1, m.height-headLines-footLines) }

// page is what the terminal shows, line by line.
func (m model) page() []string {
	var lines []string
	if row, ok := m.shown(); ok && m.detail {
		lines = m.detailPage(row)
	} else {
		lines = m.listPage()
	}
	lines = lines[:min(len(lines), max(1, m.height))]
	for i, line := range lines {
		lines[i] = m.fit(line, m.width)
	}
	return lines
}

// shown is the row that is chosen.
func (m model) shown() (channelRow, bool) {
	if len(m.rows) == 0 {
		return channelRow{}, false
	}
	return m.rows[m.index()], true
}

func (m model) listPage() []string {
	lines := []string{m.hostLine(), m.linksLine(), m.lostLine()}
	c := m.columns()
	lines = append(lines, m.paint("1", c.line(c.titles())))
	first := max(0, min(m.index()-m.room()/2, len(m.rows)-m.room()))
	last := min(len(m.rows), first+m.room())
	for _, r := range m.rows[first:last] {
		lines = append(lines, m.rowLine(c, r))
	}
	if len(m.rows) == 0 {
		lines = append(lines, "  "+m.nothing())
	}
	for len(lines) < m.height-footLines {
		lines = append(lines, "")
	}
	return append(lines, m.eventLine(), m.keysLine(first, last))
}

// nothing says why there are no rows.
func (m model) nothing() string {
	switch {
	case m.at.IsZero():
		return "no answer yet"
	case m.all > 0:
		return fmt.Sprintf("none of %d channels has %q in its line", m.all, m.filter)
	}
	return "nothing is mirrored here, and nothing is read by others: achbridge mirror HOST/CHANNEL"
}

func (m model) hostLine() string {
	s := m.status
	live := 0
	for _, c := range s.Mirrors {
		if c.State == status.MirrorLive {
			live++
		}
	}
	parts := []string{m.paint("1", s.Host), "up " + ui.Seconds(s.UptimeS)}
	if n := len(s.Mirrors); n > 0 {
		parts = append(parts, fmt.Sprintf("in %d, live %d", n, live))
	}
	if n := len(s.Exports); n > 0 {
		parts = append(parts, fmt.Sprintf("out %d", n))
	}
	waiting := 0
	for _, p := range s.Pushes {
		if p.State != status.PushAccepted {
			waiting++
		}
	}
	if waiting > 0 {
		parts = append(parts, m.paint("31", fmt.Sprintf("pushes not accepted %d", waiting)))
	}
	return m.apart(strings.Join(parts, "   "), m.at.Format("15:04:05"))
}

func (m model) linksLine() string {
	if len(m.status.Links) == 0 {
		return "no link"
	}
	var parts []string
	for _, l := range m.status.Links {
		text := fmt.Sprintf("%s %s %s", l.Peer, l.Transport, ui.Millis(l.RTTms))
		if l.PathMbit != nil {
			text += fmt.Sprintf(" %.3g Mbit/s", *l.PathMbit)
		}
		if l.State != status.LinkUp {
			text = m.paint("31", fmt.Sprintf("%s silent %s", l.Peer, ui.Seconds(l.SilentS)))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "   ")
}

// lostLine tells that the daemon does not answer.
func (m model) lostLine() string {
	if m.err == nil {
		return ""
	}
	text := fmt.Sprintf("! no answer for %s: %v; trying again", m.lost.Round(time.Second), m.err)
	return m.paint("31", text)
}

// layout are the widths of the columns that are shown.
type layout struct {
	name, bars int
	wide       bool // MEAN and BUDGET too
}

const (
	wideFrom  = 100 // from that width on there are more columns
	leastName = 14  // names have so much at least
)

func (m model) columns() layout {
	c := layout{wide: m.width >= wideFrom}
	left := m.width - len(c.line([]string{"", "", "", "", "", "", "", "", ""})) // the rest is of a fixed width
	longest := leastName
	for _, r := range m.rows {
		longest = max(longest, ansi.StringWidth(r.name))
	}
	c.name = max(leastName, min(longest, left*3/5))
	c.bars = max(0, left-c.name)
	return c
}

func (c layout) titles() []string {
	return []string{"  CHANNEL", "AGE", "MEAN", "P99", "BUDGET", "USED", "RATE", "DROP", fmt.Sprintf("AGE, LAST %d S", min(c.bars, keptSamples-1))}
}

// line lays out the cells; the first has the marks and the name.
func (c layout) line(cells []string) string {
	text := pad(cells[0], 2+c.name)
	for i, width := range []int{8, 8, 8, 8, 6, 7, 7} {
		if wideOnly := i == 1 || i == 3; wideOnly && !c.wide {
			continue
		}
		text += " " + padLeft(cells[i+1], width)
	}
	return text + "  " + cells[8]
}

func (m model) rowLine(c layout, r channelRow) string {
	chosen := r.key == m.rows[m.index()].key
	marks := mark(chosen, ">") + mark(r.bad(), "!")
	last := m.bars(r.ages, c.bars, 1, r.scale(c.bars))[0]
	if r.rank() > 0 {
		last = strings.TrimSuffix(r.state+": "+r.reason, ": ")
	}
	line := c.line([]string{
		marks + m.fit(r.name, c.name), millisOr(r.age), millisOr(r.mean), millisOr(r.p99), millisOr(r.budget),
		ui.Percent(r.used), ui.PerSecond(r.rate), ui.PerSecond(r.drops), last,
	})
	line = pad(m.fit(line, m.width), m.width)
	switch {
	case chosen:
		return m.paint("7", line)
	case r.bad():
		return m.paint("31", line)
	case r.used > 0.5:
		return m.paint("33", line)
	}
	return line
}

// scale is the age that fills the height of width bars.
func (r channelRow) scale(width int) float64 {
	most := r.budget / 4
	for _, v := range r.ages[max(0, len(r.ages)-width):] {
		if v > most {
			most = v
		}
	}
	return most
}

// levels are cells that are filled more and more.
var (
	blockLevels = []rune(" ▁▂▃▄▅▆▇█")
	asciiLevels = []rune(" _.-:=+*#")
)

// bars draws the newest values that width has room for, the newest on the right, as
// so many lines; most is the value that fills them.
func (m model) bars(values []float64, width, height int, most float64) []string {
	levels := asciiLevels
	if m.blocks {
		levels = blockLevels
	}
	full := len(levels) - 1
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
			b.WriteRune(levels[max(0, min(level-below, full))])
		}
		lines[i] = b.String()
	}
	return lines
}

// eventLine is the newest event.
func (m model) eventLine() string {
	if len(m.events) == 0 {
		return ""
	}
	return m.paint("2", eventText(m.events[len(m.events)-1]))
}

func eventText(e status.Event) string {
	text := fmt.Sprintf("%s %s", e.Time.Local().Format("15:04:05"), e.Kind)
	return text + " " + cmp.Or(e.Mirror, e.Channel, e.Host) + ": " + e.Text
}

func (m model) keysLine(first, last int) string {
	if m.deaf {
		return m.apart("Ctrl-C quits", fmt.Sprintf("%d-%d of %d", min(first+1, last), last, len(m.rows)))
	}
	if m.typing {
		return "filter: " + m.filter + "_   Enter: keep it   Esc: show all"
	}
	keys := "Enter detail   / filter   s sort: " + orders[m.order].name + "   q quit"
	if m.filter != "" {
		keys = fmt.Sprintf("Enter detail   Esc all, not only %q   s sort: %s   q quit", m.filter, orders[m.order].name)
	}
	if len(m.rows) == 0 {
		return keys
	}
	return m.apart(keys, fmt.Sprintf("%d-%d of %d", first+1, last, len(m.rows)))
}

// apart puts two texts at the two ends of a line.
func (m model) apart(left, right string) string {
	gap := m.width - ansi.StringWidth(left) - ansi.StringWidth(right)
	if gap < 2 {
		return left
	}
	return left + strings.Repeat(" ", gap) + right
}

// fit cuts text to a width, and says so by its last character.
func (m model) fit(text string, width int) string {
	tail := "~"
	if m.blocks {
		tail = "…"
	}
	return ansi.Truncate(text, width, tail)
}

func (m model) paint(code, text string) string { return m.color.Paint(code, text) }

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}

func padLeft(text string, width int) string {
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(text))) + text
}

func mark(on bool, sign string) string {
	if on {
		return sign
	}
	return " "
}

func millisOr(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return ui.Millis(v)
}
