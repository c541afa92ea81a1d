package rule

import (
	"fmt"
	"strings"
)

// Address is HOST/CHANNEL: the channels of one or more hosts. Both parts may be patterns.
type Address struct{ Host, Channel string }

// ParseAddress parses HOST/PATTERN, ach://HOST/PATTERN, or HOST for all channels of the host. A prefix achd://
// or achd+udp:// is part of the host's name.
func ParseAddress(text string) (Address, error) {
	a, _, ok := splitAddress(text)
	if !ok {
		return a, fmt.Errorf("%q: want HOST, HOST/CHANNEL or HOST/PATTERN, as in 'krang/*'", text)
	}
	return a, nil
}

// ParseChannels parses HOST/CHANNEL or HOST/PATTERN. A host without a channel is an error.
func ParseChannels(text string) (Address, error) {
	a, whole, ok := splitAddress(text)
	if !ok || whole {
		return a, fmt.Errorf("%q: want HOST/CHANNEL or HOST/PATTERN, as in 'krang/*'%s", text, meant(text))
	}
	return a, nil
}

// ParseChannel parses HOST/CHANNEL, without patterns.
func ParseChannel(text string) (Address, error) {
	a, whole, ok := splitAddress(text)
	if !ok || whole || IsPattern(a.String()) {
		return a, fmt.Errorf("%q: want HOST/CHANNEL, as in krang/imu%s", text, meant(text))
	}
	return a, nil
}

// meant returns a suggestion for an error if text looks like the name of a mirror, HOST.CHANNEL.
func meant(text string) string {
	host, channel, ok := strings.Cut(text, ".")
	if _, _, good := splitAddress(host + "/" + channel); !ok || !good || strings.Contains(text, "/") {
		return ""
	}
	return "; did you mean " + host + "/" + channel + "?"
}

// splitAddress parses an address. whole reports whether it has no channel part, ok whether it is valid.
func splitAddress(text string) (a Address, whole, ok bool) {
	protocol, rest := cutAchd(strings.TrimPrefix(text, "ach://"))
	host, channel, more := strings.Cut(rest, "/")
	if !more {
		channel = "*"
	}
	good := !strings.ContainsAny(host+channel, "/,") && CheckPattern("", host) == nil && CheckPattern("", channel) == nil
	return Address{plainAchd(protocol + host), channel}, !more, good
}

// CutTarget splits the target of a push, HOST or HOST/NAME. named reports whether it has a name.
func CutTarget(text string) (host, name string, named bool) {
	protocol, rest := cutAchd(text)
	host, name, named = strings.Cut(rest, "/")
	return plainAchd(protocol + host), name, named
}

// String returns HOST/CHANNEL.
func (a Address) String() string { return a.Host + "/" + a.Channel }

// MatchesHost reports whether the address matches host.
func (a Address) MatchesHost(host string) bool { return Match(a.Host, host) }

// Matches reports whether the address matches a channel of host.
func (a Address) Matches(host, channel string) bool {
	return Match(a.Host, host) && Match(a.Channel, channel)
}
