package wire

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of the words in control messages.
const (
	MaxName = 63   // bytes of a channel's or host's name
	MaxText = 1024 // bytes of a text for people
)

var (
	errNone  = errors.New("missing")
	errDot   = errors.New("begins with a dot")
	errPrint = errors.New("not printable UTF-8")
)

// Text makes a text for people fit to be sent: what cannot be printed becomes
// a question mark, what is longer than MaxText is cut off.
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
		return fmt.Errorf("%s: %w", field, errPrint)
	}
	return nil
}

// checkName keeps to the names libach allows, so that no name a peer sends can
// leave the directory of the channels.
func checkName(field, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s: %w", field, errNone)
	case len(s) > MaxName:
		return fmt.Errorf("%s: longer than %d bytes", field, MaxName)
	case s[0] == '.':
		return fmt.Errorf("%s %q: %w", field, s, errDot)
	}
	for i := range len(s) {
		if !nameByte(s[i]) {
			return fmt.Errorf("%s %q: has a byte other than A-Z a-z 0-9 - _ .", field, s)
		}
	}
	return nil
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

func checkNode(field string, id [16]byte) error {
	if id == [16]byte{} {
		return fmt.Errorf("%s: %w", field, errNone)
	}
	return nil
}

func checkID(id uint32) error {
	if id == 0 {
		return fmt.Errorf("id: %w", errNone)
	}
	return nil
}

func checkRange(field string, v, least, most int) error {
	if v < least || v > most {
		return fmt.Errorf("%s: %w", field, outside(v, least, most))
	}
	return nil
}
