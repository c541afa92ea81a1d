package ui

import (
	"regexp"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

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

// words are those of a text; a number and its unit are one.
func words(text string) (list []string) {
	for _, w := range strings.Fields(text) {
		if n := len(list); n > 0 && numeric.MatchString(list[n-1]) && unitName.MatchString(w) {
			list[n-1] += " " + w
			continue
		}
		list = append(list, w)
	}
	return list
}

var (
	numeric  = regexp.MustCompile(`^[^\pL]*\d$`)
	unitName = regexp.MustCompile(`^(ns|µs|ms|s|min|h|d|Hz|%|[kMG]?bit/s|[KMG]?iB|B)[,.;:)]*$`)
)

// Wrap joins words, with line breaks where width is used up. The first line begins after
// used columns.
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

// YesNo prints yes or no.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
