package ui

import "strings"

// Nearest returns the word that is most like text, "" if none is like it: one that begins with it, or differs from it in
// one or two letters.
func Nearest(text string, words []string) string {
	text = strings.ToLower(text)
	best, least := "", 1+min(2, len(text)/2)
	for _, w := range words {
		d := distance(text, strings.ToLower(w))
		if len(text) >= 3 && strings.HasPrefix(w, text) || strings.TrimSuffix(text, "s") == w {
			d = 0
		}
		if d < least {
			best, least = w, d
		}
	}
	return best
}

// DidYouMean returns a question that names the nearest of words, to be appended to an error; "" if no word is like text.
func DidYouMean(text string, words []string) string {
	if near := Nearest(text, words); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// distance returns the Levenshtein distance of a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := last
			if a[i] != b[j] {
				change++
			}
			last = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
