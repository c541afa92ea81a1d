package wire

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is the largest length of a text for people in a message, in bytes.
const MaxText = 1024

// Text makes a text for people valid in a message. It replaces each character that cannot be
// printed by a question mark and truncates the text to MaxText bytes.
func Text(s string) string {
	var t strings.Builder
	for _, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			r = '?'
		}
		if t.Len()+utf8.RuneLen(r) > MaxText {
			break
		}
		t.WriteRune(r)
	}
	return t.String()
}

func checkText(field, s string) error {
	if len(s) > MaxText {
		return fmt.Errorf("%s: longer than %d bytes", field, MaxText)
	}
	if s != Text(s) {
		return fmt.Errorf("%s: has characters that cannot be printed", field)
	}
	return nil
}
