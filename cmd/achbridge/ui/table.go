package ui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

const (
	columnGap = "  "
	leastLast = 20 // minimum columns for the last column of a table before other columns are omitted
)

// Table prints rows under header to stdout. Empty cells become "-". On a screen the last column wraps. If it lacks room,
// the columns named in spare are omitted, one after another.
func (u *Terminal) Table(header []string, rows [][]string, shrinkable ...string) error {
	all := [][]string{header}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = cmp.Or(cell, "-")
		}
		all = append(all, cells)
	}
	width := u.Columns()
	for _, name := range shrinkable {
		if i := slices.Index(all[0], name); i >= 0 && width > 0 && !fits(all, width) {
			for r := range all {
				all[r] = slices.Delete(slices.Clone(all[r]), i, i+1)
			}
		}
	}
	widths, begin := columnWidths(all)
	var out strings.Builder
	for r, cells := range all {
		line := ""
		for i, cell := range cells[:len(cells)-1] {
			line += cell + strings.Repeat(" ", widths[i]-ansi.StringWidth(cell)) + columnGap
		}
		last := cells[len(cells)-1]
		if width > 0 {
			last = broken(last, 0, begin, width)
		}
		if line += last; r == 0 {
			line = u.Color.Paint("1", line)
		}
		out.WriteString(line + "\n")
	}
	return u.print(out.String())
}

// fits reports whether the last column has room in lines of width columns.
func fits(rows [][]string, width int) bool {
	widths, begin := columnWidths(rows)
	return begin+min(widths[len(widths)-1], leastLast) <= width
}

// columnWidths returns the widths of the columns, and the position of the last one.
func columnWidths(rows [][]string) (widths []int, begin int) {
	widths = make([]int, len(rows[0]))
	for _, cells := range rows {
		for i, cell := range cells {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	for _, w := range widths[:len(widths)-1] {
		begin += w + len(columnGap)
	}
	return widths, begin
}
