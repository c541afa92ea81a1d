package rule

import (
	"fmt"
	"strings"
)

// Setting is a key with its value, as in budget=20ms.
type Setting struct{ Key, Value string }

// Split splits the settings off a text such as "krang/*,budget=20ms,priority=7". Text without a = becomes a
// Setting with an empty Key, see Check.
func Split(text string) (address string, settings []Setting) {
	address, more, has := strings.Cut(text, ",")
	for has {
		var text string
		text, more, has = strings.Cut(more, ",")
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			key, value = "", text
		}
		settings = append(settings, Setting{key, value})
	}
	return address, settings
}

// Check returns an error if the setting has no key.
func (s Setting) Check() error {
	if s.Key == "" {
		return fmt.Errorf("option %q: want key=value, as in budget=20ms", s.Value)
	}
	return nil
}
