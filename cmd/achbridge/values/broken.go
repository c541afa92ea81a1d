package values

import (
	"strings"
	"unicode/utf8"
)

// leastRoom is the minimum number of columns after the names.
const leastRoom = 20

// broken returns the text of a value that begins at column indent, with line breaks after commas at the width of the
// screen. It does not break text from a frame.
func broken(text string, indent, columns int) string {
	room := columns - indent
	if room < leastRoom || utf8.RuneCountInString(text) <= room || strings.HasPrefix(text, `"`) {
		return text
	}
	var lines []string
	line := ""
	for part := range strings.SplitAfterSeq(text, ", ") {
		if line != "" && utf8.RuneCountInString(line+strings.TrimRight(part, " ")) > room {
			lines, line = append(lines, strings.TrimRight(line, " ")), ""
		}
		line += part
	}
	return strings.Join(append(lines, line), "\n"+strings.Repeat(" ", indent))
}
