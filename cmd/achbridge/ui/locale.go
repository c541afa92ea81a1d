package ui

import (
	"cmp"
	"strings"
)

// IsUTF8 reports whether the locale can show more than ASCII.
func IsUTF8(env func(string) string) bool {
	locale := strings.ToLower(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}
