package rule

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

func CheckPattern(what, p string) error {
	if _, err := path.Match(p, ""); err != nil || p == "" {
		return fmt.Errorf("%s %q: not a pattern; * stands for any text, ? for one character, [ab] for one of them", what, p)
	}
	return nil
}

func IsPattern(s string) bool { return strings.ContainsAny(s, "*?[\\") }

func Matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Match(p, name) })
}

// MatchType reports whether a layout pattern matches a channel or its mirror. channel is a local channel or
// HOST/CHANNEL, and name is the name of the mirror. A pattern HOST/CHANNEL also matches mirrors that are named
// HOST.CHANNEL.
func MatchType(pattern, channel, name string) bool {
	return Match(pattern, channel) || Match(pattern, name) || Match(strings.Replace(pattern, "/", ".", 1), name)
}

func Match(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}
