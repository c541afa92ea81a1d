package ui

import (
	"slices"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// AndList joins words as "a, b and c".
func AndList(words []string) string { return joinLast(words, " and ") }

// OrList joins words as "a, b or c".
func OrList(words []string) string { return joinLast(words, " or ") }

func joinLast(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + last + words[n]
}

// words splits a text into words. A number and its unit are one word.
func words(text string) (list []string) {
	for _, w := range strings.Fields(text) {
		if n := len(list); n > 0 && isNumber(list[n-1]) && isUnit(w) {
			list[n-1] += " " + w
			continue
		}
		list = append(list, w)
	}
	return list
}

// isNumber reports whether a word is a number, possibly after a sign or a bracket.
func isNumber(word string) bool {
	last := word[len(word)-1]
	return last >= '0' && last <= '9' && !strings.ContainsFunc(word, unicode.IsLetter)
}

// isUnit reports whether a word is a unit, possibly before a punctuation mark.
func isUnit(word string) bool {
	word = strings.TrimRight(word, ",.;:)")
	return slices.Contains([]string{"ns", "µs", "ms", "s", "min", "h", "d", "Hz", "%",
		"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "B", "iB", "KiB", "MiB", "GiB"}, word)
}

// Wrap joins words, with line breaks so that lines have at most width columns. The first line begins after used columns.
func Wrap(words []string, used, width int) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i > 0 && used+1+ansi.StringWidth(w) > width:
			b.WriteByte('\n')
			used = 0
		case i > 0:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(w)
		used += ansi.StringWidth(w)
	}
	return b.String()
}

// YesNo returns "yes" or "no".
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
