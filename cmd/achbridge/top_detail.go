package main

import (
	"cmp"
	"fmt"
	"math"

	"achbridge/bridge"
)

// topBars is how many lines the ages have in the detail of a channel.
const topBars = 4

// detailPage is all about one channel.
func (m topModel) detailPage(r topRow) []string {
	lines := []string{
		m.apart(m.paint("1", r.name)+"   "+r.about()+"   "+r.state, m.at.Format("15:04:05")),
		cmp.Or(m.lostLine(), m.paint("31", r.reason)),
	}
	var a bridge.Accounts
	peer := r.of
	for _, c := range m.status.Mirrors {
		if inKey(c) == r.key {
			a, peer = c.Accounts, c.Host
			lines = append(lines, m.mirrorLines(c, r)...)
		}
	}
	for _, e := range m.status.Exports {
		if outKey(e) == r.key {
			a = e.Accounts
			lines = append(lines, "qos     "+cmp.Or(qosText(bridge.QoS{}, e.QoS), "default"), framesLine(r, e.Bytes, e.Seq))
		}
	}
	lines = append(lines, "")
	lines = append(lines, ledgerLines(a)...)
	lines = append(lines, "")
	lines = append(lines, m.linkLines(peer, r.in)...)
	foot := m.apart("Esc back   up, down: another channel   q quit", fmt.Sprintf("%d of %d", m.index()+1, len(m.rows)))
	room := m.height - len(lines) - 1
	lines = append(lines, m.channelEvents(r, peer, room)...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return append(lines[:max(0, m.height-1)], foot)
}

func (r topRow) about() string {
	if r.in {
		return "mirror of " + r.of
	}
	return "sent to " + r.of
}

func (m topModel) mirrorLines(c bridge.MirrorStatus, r topRow) []string {
	lines := []string{
		"qos     " + cmp.Or(qosText(bridge.QoS{}, c.QoS), fmt.Sprintf("default, budget %v", bridge.DefaultBudget)),
		fmt.Sprintf("age     %s now", millisOr(r.age)),
	}
	if c.Age != nil {
		lines[1] += fmt.Sprintf(" %s %s", m.plusMinus(), millis(c.Age.UncertaintyMs))
		lines = append(lines, figuresLine("10 s", c.Age.Window)...)
		lines = append(lines, figuresLine("total", c.Age.Total)...)
	}
	lines = append(lines, framesLine(r, c.Bytes, c.Seq))
	width := min(keptSamples-1, m.width-20)
	scale := r.scale(width)
	for i, bars := range m.bars(r.ages, max(0, width), topBars, scale) {
		label := ""
		if i == 0 && !math.IsNaN(scale) {
			label = millis(scale)
		}
		lines = append(lines, pad("        "+bars, 8+width)+"  "+label)
	}
	return lines
}

func framesLine(r topRow, size int, seq uint64) string {
	return fmt.Sprintf("frames  %s a second, %s dropped; the newest is number %d and has %d bytes", perSecond(r.rate), perSecond(r.drops), seq, size)
}

// plusMinus goes before an uncertainty.
func (m topModel) plusMinus() string {
	if m.blocks {
		return "±"
	}
	return "+-"
}

func figuresLine(what string, f *bridge.AgeFigures) []string {
	if f == nil {
		return nil
	}
	return []string{fmt.Sprintf("  %-5s mean %s  p50 %s  p99 %s  peak %s  over budget %.3g %%", what,
		millis(f.MeanMs), millis(f.P50Ms), millis(f.P99Ms), millis(f.PeakMs), 100*f.OverBudget)}
}

// ledgerLines say what became of the frames, two fates on a line; those of which
// there are none are left out.
func ledgerLines(a bridge.Accounts) []string {
	fates := append(fatesOf(a), fate{"in_flight", a.InFlight})
	var cells []string
	for _, f := range fates {
		if f.count > 0 {
			cells = append(cells, fmt.Sprintf("%-12s %10d %6.2f %%", f.name, f.count, 100*float64(f.count)/float64(max(1, a.Offered))))
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

func (m topModel) linkLines(peer string, in bool) []string {
	l, ok := linkOf(m.status.Status, peer)
	if !ok {
		return []string{"link    none with " + peer}
	}
	state := "up " + seconds(l.UpS)
	if l.State != "up" {
		state = m.paint("31", "silent "+seconds(l.SilentS))
	}
	path := "never full"
	if l.PathMbit != nil {
		path = fmt.Sprintf("%.3g Mbit/s when full", *l.PathMbit)
	}
	lost, packets := l.Lost, l.Sent
	if in {
		lost, packets = l.Missed, l.Received+l.Missed
	}
	return []string{
		fmt.Sprintf("link    %s over %s with %s, %s", l.Peer, l.Transport, l.Addr, state),
		fmt.Sprintf("  round trip %s, path %s, lost %.2f %% of %d packets", millis(l.RTTms), path, 100*float64(lost)/float64(max(1, packets)), packets),
		fmt.Sprintf("  clock %s %s %s against ours", millis(l.ClockOffsetMs), m.plusMinus(), millis(l.ClockUncertaintyMs)),
	}
}

// channelEvents are the newest events of a channel and of the link with its peer, as
// many as there is room for.
func (m topModel) channelEvents(r topRow, peer string, room int) []string {
	var lines []string
	for i := len(m.events) - 1; i >= 0 && len(lines) < room-1; i-- {
		e := m.events[i]
		if e.Host == peer && (e.Mirror == "" || r.in && e.Mirror == r.name) {
			lines = append([]string{m.paint("2", topEventText(e))}, lines...)
		}
	}
	if len(lines) > 0 {
		lines = append([]string{""}, lines...)
	}
	return lines
}
