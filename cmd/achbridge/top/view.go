package top

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"achbridge/bridge/status"
	"achbridge/bridge/unit"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

// Lines of a page besides the rows and the warning. The head has the host, its links and the titles. The foot has the
// newest event and the keys.
const (
	headLines   = 3
	footLines   = 2
	mostWarning = 3 // maximum lines of the warning
)

// room returns the number of rows that fit on the screen.
func (m model) room() int { return max(1, m.space()-len(m.reasonLines(m.columns()))) }

// space returns the number of lines between head and foot.
func (m model) space() int { return m.screen.height - headLines - len(m.warning()) - footLines }

// warning returns lostLine, or the most serious problem of all shown channels, in as many lines as needed. Without a
// problem it explains the columns.
func (m model) warning() []string {
	if text := cmp.Or(m.lostLine(), diagnose.Banner(m.status.Problems)); text != "" || len(m.rows) == 0 {
		return m.red(text)
	}
	return []string{m.paint("2", "USED: lateness in % of the budget   RATE: frames that arrive   DROP: that do not")}
}

// red returns a text in as many red lines as needed.
func (m model) red(text string) []string {
	lines := wrapped(text, m.screen.width)
	for i, line := range lines {
		lines[i] = m.paint("31", line)
	}
	return lines[:min(len(lines), mostWarning)]
}

func wrapped(text string, width int) []string {
	return strings.Split(ansi.Wordwrap(text, max(20, width), ""), "\n")
}

// page returns the lines that the terminal shows.
func (m model) page() []string {
	var lines []string
	if row, ok := m.shown(); m.help {
		lines = m.helpPage()
	} else if ok && m.detail {
		lines = m.detailPage(row)
	} else {
		lines = m.listPage()
	}
	lines = lines[:min(len(lines), max(1, m.screen.height))]
	for i, line := range lines {
		lines[i] = m.fit(line, m.screen.width)
	}
	return lines
}

// shown returns the chosen row; ok is false if there are no rows.
func (m model) shown() (channelRow, bool) {
	if len(m.rows) == 0 {
		return channelRow{}, false
	}
	return m.rows[m.index()], true
}

func (m model) listPage() []string {
	first := max(0, min(m.index()-m.room()/2, len(m.rows)-m.room()))
	last := min(len(m.rows), first+m.room())
	lines := append([]string{m.hostLine(first, last), m.linksLine()}, m.warning()...)
	c := m.columns()
	lines = append(lines, m.paint("1", c.line(c.titles())))
	for _, r := range m.rows[first:last] {
		lines = append(lines, m.rowLine(c, r))
		if m.isChosen(r) {
			lines = append(lines, m.reasonLines(c)...)
		}
	}
	if len(m.rows) == 0 {
		lines = append(lines, "  "+m.nothing())
	}
	for len(lines) < m.screen.height-footLines {
		lines = append(lines, "")
	}
	return append(lines, m.eventLine(), m.keysLine())
}

// nothing returns the text that is displayed if there are no rows.
func (m model) nothing() string {
	switch {
	case m.at.IsZero():
		return "no answer yet"
	case m.all > 0:
		return fmt.Sprintf("none of %d channels has %q in its line", m.all, m.filter)
	}
	return "no channel is mirrored here, and no other host mirrors one of this host: achbridge mirror HOST/CHANNEL"
}

func (m model) hostLine(first, last int) string {
	s := m.status
	live := 0
	for _, c := range s.Mirrors {
		if c.Health() == status.HealthLive {
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
	right := m.at.Format("15:04:05")
	if len(m.rows) > 0 {
		right = fmt.Sprintf("rows %d-%d of %d   %s", first+1, last, len(m.rows), right)
	}
	return m.apart(strings.Join(parts, "   "), right)
}

func (m model) linksLine() string {
	if len(m.status.Links) == 0 {
		return "no link"
	}
	var parts []string
	for _, l := range m.status.Links {
		text := fmt.Sprintf("%s over %s, round trip %s", l.Peer, l.Transport, ui.Millis(l.RTTms))
		if l.PathMbit != nil {
			text += ", carries " + ui.Mbit(*l.PathMbit)
		}
		if l.State != status.LinkUp {
			text = m.paint("31", fmt.Sprintf("%s silent %s", l.Peer, ui.Seconds(l.SilentS)))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "   ")
}

// lostLine returns the warning that the daemon does not answer, "" while it answers.
func (m model) lostLine() string {
	if m.err == nil {
		return ""
	}
	text := fmt.Sprintf("! no answer for %s: %v; trying again", unit.Time(m.lost.Round(time.Second)), m.err)
	return text
}

// layout holds the widths of the columns.
type layout struct {
	name, bars int
	wide       bool // also show MEAN, BUDGET and PUT
}

const (
	wideFrom  = 100 // minimum width of the terminal for all columns
	leastName = 14  // minimum width of the names
	cells     = 11  // number of cells in a row
)

func (m model) columns() layout {
	c := layout{wide: m.screen.width >= wideFrom}
	left := m.screen.width - len(c.line(make([]string, cells))) // the other columns have a fixed width
	longest := leastName
	for _, r := range m.rows {
		if r.folded == 0 {
			longest = max(longest, ansi.StringWidth(r.name))
		}
	}
	c.name = max(leastName, min(longest, left*3/5))
	c.bars = max(0, left-c.name)
	return c
}

// hasRoom reports whether a text fits into the last column.
func (c layout) hasRoom(text string) bool { return ansi.StringWidth(text) <= c.bars }

func (c layout) titles() []string {
	return []string{"  CHANNEL", "WAY", "AGE", "MEAN", "P99", "BUDGET", "USED", "PUT", "RATE", "DROP", fmt.Sprintf("AGE, LAST %d S", min(c.bars, keptSamples-1))}
}

// line formats the texts of a row's cells as columns. The first cell has the marks and the name.
func (c layout) line(texts []string) string {
	text := pad(texts[0], 2+c.name) + " " + pad(texts[1], 3)
	for i, width := range []int{ageWidth, ageWidth, ageWidth, ageWidth, 7, 7, 7, 7} {
		if wideOnly := i == 1 || i == 3 || i == 5; wideOnly && !c.wide {
			continue
		}
		text += " " + padLeft(texts[i+2], width)
	}
	return text + "  " + texts[10]
}

func (m model) isChosen(r channelRow) bool { return r.key == m.rows[m.index()].key }

// reasonLines returns why the chosen channel is not live, if its row lacks room for the reason.
func (m model) reasonLines(c layout) []string {
	r, ok := m.shown()
	if !ok || c.hasRoom(r.why()) {
		return nil
	}
	const indent = "    "
	text := r.reason
	if !c.hasRoom(r.word()) {
		text = r.why()
	}
	lines := wrapped(text, m.screen.width-len(indent))
	for i, line := range lines {
		lines[i] = m.paint("7", pad(m.fit(indent+line, m.screen.width), m.screen.width))
	}
	return lines[:max(0, min(len(lines), m.space()-1))]
}

func (m model) rowLine(c layout, r channelRow) string {
	chosen := m.isChosen(r)
	marks := mark(chosen, ">") + mark(r.bad(), "!")
	if r.folded > 0 {
		line := pad(m.fit(marks+r.name, m.screen.width), m.screen.width)
		if chosen {
			return m.paint("7", line)
		}
		return line
	}
	last := m.bars(r.ages, c.bars, 1, r.scale(c.bars))[0]
	if why := r.why(); why != "" {
		last = why
	}
	if chosen && !c.hasRoom(last) {
		last = r.word() // the reason has its own lines
	}
	line := c.line([]string{
		marks + m.fit(r.name, c.name), r.way(), millisOr(r.age), millisOr(r.mean), millisOr(r.p99), millisOr(r.budget),
		ui.Percent(r.used), ui.Hertz(r.put), ui.Hertz(r.rate), ui.PerSecond(r.drops), last,
	})
	line = pad(m.fit(line, m.screen.width), m.screen.width)
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

// eventLine returns the note about the last action, or the newest event, as a line.
func (m model) eventLine() string {
	switch {
	case m.note != "":
		return m.paint("1", m.note)
	case len(m.events) == 0:
		return ""
	}
	return m.paint("2", eventText(m.events[len(m.events)-1]))
}

func eventText(e status.Event) string {
	text := fmt.Sprintf("%s %s", e.Time.Local().Format("15:04:05"), e.Kind)
	return text + " " + cmp.Or(e.Mirror, e.Channel, e.Host) + ": " + e.Text
}

func (m model) keysLine() string {
	if m.screen.deaf {
		return "Ctrl-C quits"
	}
	if m.typing {
		return "filter: " + m.filter + "_   Enter: keep it   Esc: show all"
	}
	filter := "/ filter"
	if m.filter != "" {
		filter = fmt.Sprintf("Esc all, not only %q", m.filter)
	}
	return fmt.Sprintf("? keys  q quit  Enter detail  w why  p pause  +- priority  %s  s sort: %s", filter, orders[m.order].name)
}

// apart returns a line with one text at the left end and one at the right end.
func (m model) apart(left, right string) string {
	gap := m.screen.width - ansi.StringWidth(left) - ansi.StringWidth(right)
	if gap < 2 {
		return left
	}
	return left + strings.Repeat(" ", gap) + right
}

// fit truncates text to a width. A truncated text ends with … or ~.
func (m model) fit(text string, width int) string {
	tail := "~"
	if m.screen.blocks {
		tail = "…"
	}
	return ansi.Truncate(text, width, tail)
}

func (m model) paint(code, text string) string { return m.screen.color.Paint(code, text) }

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
	text := ui.Millis(v)
	if len(text) > ageWidth { // for example 2 min 10 s
		text = strings.Join(strings.Fields(text)[:2], " ")
	}
	return text
}

const ageWidth = 8
