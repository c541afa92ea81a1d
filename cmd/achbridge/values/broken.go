package values

import (
	"strings"
	"unicode/utf8"
)

// leastRoom is how many columns there are to be beside the names.
const leastRoom = 20

// broken is the text of a value that begins at column indent, broken behind commas where the screen ends.
// Text of a frame stays as it is.
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
