package ui

import "strings"

// AndList is "a, b and c".
func AndList(words []string) string { return joinLast(words, " and ") }

// OrList is "a, b or c".
func OrList(words []string) string { return joinLast(words, " or ") }

func joinLast(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + last + words[n]
}

// Wrap joins words, with line breaks where width is used up. The first line begins after
// used columns.
func Wrap(words []string, used, width int) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i > 0 && used+1+len(w) > width:
			b.WriteByte('\n')
			used = 0
		case i > 0:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(w)
		used += len(w)
	}
	return b.String()
}

// YesNo prints yes or no.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
