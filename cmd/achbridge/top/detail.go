package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/ui"
)

// barLines is the height of the age graph on the detail page, in lines.
const barLines = 4

// detailPage returns the lines of the page about one channel.
func (m model) detailPage(r channelRow) []string {
	lines := []string{
		m.apart(m.paint("1", r.name)+"   "+r.about()+"   "+r.state(), m.at.Format("15:04:05")),
	}
	lines = append(lines, m.red(cmp.Or(m.lostLine(), r.reason))...)
	var a ledger.FrameCounters
	peer := r.of
	for _, c := range m.status.Mirrors {
		if inKey(c) == r.key {
			a, peer = c.FrameCounters, c.Host
			lines = append(lines, m.mirrorLines(c, r)...)
			lines = append(lines, m.lockLines(c)...)
		}
	}
	for _, e := range m.status.Exports {
		if outKey(e) == r.key {
			a = e.FrameCounters
			lines = append(lines, "qos     "+cmp.Or(rule.Differences(rule.QoS{}, e.QoS), "default"), m.framesLine(r, e.Bytes, e.Seq))
		}
	}
	lines = append(lines, "")
	lines = append(lines, counterLines(a)...)
	lines = append(lines, "")
	if r.mark != "" {
		lines = append(lines, "link    none: achd's protocol, without authentication; the ledger has only what came here")
	} else {
		lines = append(lines, m.linkLines(peer, r)...)
	}
	foot := m.apart(cmp.Or(m.note, "? keys  q quit  Esc back  up, down another  w why  p pause  +- priority"), fmt.Sprintf("%d of %d", m.index()+1, len(m.rows)))
	if m.why.channel == r.channel {
		lines = append(lines, "")
		for _, line := range m.why.lines {
			lines = append(lines, wrapped(line, m.screen.width)...)
		}
	}
	lines = append(lines, m.valueLines(r, m.screen.height-len(lines)-1)...)
	room := m.screen.height - len(lines) - 1
	lines = append(lines, m.channelEvents(r, peer, room)...)
	for len(lines) < m.screen.height-1 {
		lines = append(lines, "")
	}
	return append(lines[:max(0, m.screen.height-1)], foot)
}

// lockLines returns a line about the operator lock of a mirror of this host, none if nobody holds one.
func (m model) lockLines(c status.Mirror) (lines []string) {
	for _, l := range m.status.Locks {
		if l.Host == m.status.Host && l.Channel == c.Name {
			lines = append(lines, fmt.Sprintf("lock    %s holds it for %s", l.Holder, ui.Seconds(l.HeldS)))
		}
	}
	return lines
}

func (r channelRow) about() string {
	if r.in {
		return "mirror of " + r.of
	}
	return "sent to " + r.of
}

func (m model) mirrorLines(c status.Mirror, r channelRow) []string {
	lines := []string{
		"qos     " + cmp.Or(diagnose.QoSText(c), fmt.Sprintf("default, budget %v", rule.DefaultBudget)),
		fmt.Sprintf("age     %s now", millisOr(r.age)),
	}
	if c.SinceArrivalMs != nil {
		lines[1] = fmt.Sprintf("age     not known; the newest came %s ago", ui.Millis(*c.SinceArrivalMs))
	}
	if c.Age != nil {
		lines[1] += fmt.Sprintf(" %s %s", m.plusMinus(), ui.Millis(c.Age.UncertaintyMs))
		lines = append(lines, figuresLine("10 s", c.Age.Window)...)
		lines = append(lines, figuresLine("total", c.Age.Total)...)
	}
	lines = append(lines, m.framesLine(r, c.Bytes, c.Seq))
	width := max(0, min(keptSamples-1, m.screen.width-24))
	scale := r.scale(width)
	beyond := ""
	if peak := slices.Max(append(slices.DeleteFunc(slices.Clone(r.ages[max(0, len(r.ages)-width):]), math.IsNaN), 0)); peak > scale*1.01 {
		beyond = "peak " + ui.Millis(peak)
	}
	for i, bars := range m.bars(r.ages, width, barLines, scale) {
		label := ""
		if i == 0 && !math.IsNaN(scale) {
			label = ui.Millis(scale)
		} else if i == 1 {
			label = beyond
		}
		lines = append(lines, pad("        "+bars, 8+width)+"  "+label)
	}
	return lines
}

// framesLine describes the frames of a channel. sent is the transmitted size of the last one, which may be compressed.
func (m model) framesLine(r channelRow, sent int, seq uint64) string {
	size := fmt.Sprintf("%d bytes sent", sent)
	if m.inside.channel == r.channel && m.inside.size > 0 {
		size = fmt.Sprintf("%d bytes", m.inside.size)
		if m.inside.size != sent {
			size += fmt.Sprintf(" (%d sent)", sent)
		}
	}
	return fmt.Sprintf("frames  %s, %s dropped; newest: number %d, %s", ui.Hertz(r.rate), ui.PerSecond(r.drops), seq, size)
}

// plusMinus returns the sign before an uncertainty.
func (m model) plusMinus() string {
	if m.screen.blocks {
		return "±"
	}
	return "+-"
}

func figuresLine(what string, f *status.AgeFigures) []string {
	if f == nil {
		return nil
	}
	return []string{fmt.Sprintf("  %-5s mean %s  p50 %s  p99 %s  peak %s  over budget %.3g %%", what,
		ui.Millis(f.MeanMs), ui.Millis(f.P50Ms), ui.Millis(f.P99Ms), ui.Millis(f.PeakMs), 100*f.OverBudget)}
}

// counterLines returns the outcomes of the frames, two on a line. It omits outcomes with a count of zero.
func counterLines(a ledger.FrameCounters) []string {
	outcomes := append(a.Outcomes(), ledger.Outcome{Name: "in_flight", Count: a.InFlight})
	var cells []string
	for _, f := range outcomes {
		if f.Count > 0 {
			cells = append(cells, fmt.Sprintf("%-12s %10d %6.2f %%", f.Name, f.Count, 100*float64(f.Count)/float64(max(1, a.Offered))))
		}
	}
	lines := []string{fmt.Sprintf("ledger  offered %d, duplicate %d, repaired %d", a.Offered, a.Duplicate, a.Repaired)}
	for i := 0; i < len(cells); i += 2 {
		line := "  " + cells[i]
		if i+1 < len(cells) {
			line += "    " + cells[i+1]
		}
		lines = append(lines, line)
	}
	return lines
}

func (m model) linkLines(peer string, r channelRow) []string {
	l, ok := diagnose.LinkOf(m.status.Report, peer)
	if !ok {
		return []string{"link    none with " + peer}
	}
	state := "up " + ui.Seconds(l.UpS)
	if l.State != status.LinkUp {
		state = m.paint("31", "silent "+ui.Seconds(l.SilentS))
	}
	path, lost, packets := l.PathMbit, l.Lost, l.Sent
	if r.in {
		path, lost, packets = nil, l.Missed, l.Received+l.Missed
	}
	if from := l.Inbound; r.in && from != nil { // the peer has sent its own figures, which are exact
		path, lost, packets = from.PathMbit, from.Lost, from.Sent
	}
	return []string{
		fmt.Sprintf("link    %s over %s with %s, %s", l.Peer, l.Transport, l.Addr, state),
		fmt.Sprintf("  round trip %s, path %s, lost %.2f %% of %d packets", ui.Millis(l.RTTms), pathText(path), 100*float64(lost)/float64(max(1, packets)), packets),
		fmt.Sprintf("  clock %s %s %s against ours", ui.Millis(l.ClockOffsetMs), m.plusMinus(), ui.Millis(l.ClockUncertaintyMs)),
	}
}

// pathText returns the measured capacity of a path as text.
func pathText(mbit *float64) string {
	if mbit == nil {
		return "never full"
	}
	return ui.Mbit(*mbit) + " when full"
}

// valueLines returns the values in the newest frame of a channel, in at most room lines.
func (m model) valueLines(r channelRow, room int) []string {
	if m.inside.channel != r.channel || len(m.inside.lines) == 0 || room < 3 {
		return nil
	}
	lines := append([]string{""}, m.inside.lines...)
	if more := len(lines) - room; more > 0 {
		lines = append(lines[:room-1], m.paint("2", fmt.Sprintf("  %d more: achbridge echo %s", more+1, r.channel)))
	}
	return lines
}

// channelEvents returns the newest events of a channel and of the link with its peer, in at most room lines.
func (m model) channelEvents(r channelRow, peer string, room int) []string {
	var lines []string
	for i := len(m.events) - 1; i >= 0 && len(lines) < room-1; i-- {
		e := m.events[i]
		if e.Host == peer && (e.Mirror == "" || r.in && e.Mirror == r.name) {
			lines = append([]string{m.paint("2", eventText(e))}, lines...)
		}
	}
	if len(lines) > 0 {
		lines = append([]string{""}, lines...)
	}
	return lines
}
