package config

import (
	"fmt"
	"strings"
)

// IsHTTPHost reports whether text is a host name, in the form of an entry of http_hosts.
func IsHTTPHost(text string) bool {
	const most = 253
	allowed := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.-", r)
	}
	return text != "" && len(text) <= most && text[0] != '.' && text[0] != '-' && text[len(text)-1] != '-' &&
		!strings.ContainsFunc(text, func(r rune) bool { return !allowed(r) })
}

// checkHTTPHost returns an error if an entry of http_hosts is not valid.
func checkHTTPHost(text string) error {
	if !IsHTTPHost(text) {
		return fmt.Errorf("%q: want a name without port or pattern, as in robot.example.com", text)
	}
	return nil
}
