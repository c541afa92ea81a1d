package top

import (
	"fmt"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
)

// foldFrom is the least number of equal rows that are folded into one.
const foldFrom = 5

// fold replaces rows that need no attention by one row for each host and direction, if the rows do not fit on the screen. Rows
// that the user has unfolded stay, below the row for them. While the user filters, or sorts by a figure, fold does nothing.
func (m *model) fold() {
	if len(m.rows) <= m.room() || m.filter != "" || m.order != 0 {
		return
	}
	groups := map[string][]int{}
	for i, r := range m.rows {
		if g := r.group(); g != "" {
			groups[g] = append(groups[g], i)
		}
	}
	var rows []channelRow
	for i, r := range m.rows {
		g := r.group()
		equal := groups[g]
		switch {
		case g == "" || len(equal) < foldFrom:
			rows = append(rows, r)
		case equal[0] == i:
			rows = append(rows, m.folded(g, r, equal))
			if m.unfolded[g] {
				rows = append(rows, r)
			}
		case m.unfolded[g]:
			rows = append(rows, r)
		}
	}
	m.rows = rows
}

// group returns the name of the row's group, "" if the row needs attention.
func (r channelRow) group() string {
	if r.bad() || r.why() != "" || r.used > 0.5 || r.isPaused() {
		return ""
	}
	return "fold " + r.way() + " " + r.host
}

// folded returns the row that replaces the rows with the indexes in equal. first is the first of these rows.
func (m *model) folded(group string, first channelRow, equal []int) channelRow {
	what := "mirrors of"
	if !first.in {
		what = "channels sent to"
	}
	text := fmt.Sprintf("%d %s %s, live", len(equal), what, first.host)
	used := 0.0
	for _, i := range equal {
		used = max(used, m.rows[i].used) // NaN for channels that are sent, which have no mirrors here
	}
	if first.in {
		text += ", USED at most " + ui.Percent(used)
	}
	if m.unfolded[group] {
		text += "; Enter folds them"
	} else {
		text += "; Enter shows them"
	}
	return channelRow{key: group, name: text, host: first.host, in: first.in, folded: len(equal), health: status.HealthLive, used: none}
}
