package rule

import (
	"fmt"
	"strings"
)

// Address names channels of hosts: HOST/CHANNEL, both of which may be patterns.
type Address struct{ Host, Channel string }

// ParseAddress reads HOST/PATTERN, ach://HOST/PATTERN, or HOST, which stands for all
// channels of the host. achd:// and achd+udp:// in front are part of the host's name.
func ParseAddress(text string) (Address, error) {
	a, _, ok := splitAddress(text)
	if !ok {
		return a, fmt.Errorf("%q: want HOST, HOST/CHANNEL or HOST/PATTERN, as in 'krang/*'", text)
	}
	return a, nil
}

// ParseChannels reads HOST/CHANNEL or HOST/PATTERN: a host alone is an error.
func ParseChannels(text string) (Address, error) {
	a, whole, ok := splitAddress(text)
	if !ok || whole {
		return a, fmt.Errorf("%q: want HOST/CHANNEL or HOST/PATTERN, as in 'krang/*'%s", text, meant(text))
	}
	return a, nil
}

// ParseChannel reads HOST/CHANNEL, without patterns.
func ParseChannel(text string) (Address, error) {
	a, whole, ok := splitAddress(text)
	if !ok || whole || IsPattern(a.String()) {
		return a, fmt.Errorf("%q: want HOST/CHANNEL, as in krang/imu%s", text, meant(text))
	}
	return a, nil
}

// meant is what somebody may have meant who wrote the name of a mirror: HOST.CHANNEL.
func meant(text string) string {
	host, channel, ok := strings.Cut(text, ".")
	if _, _, good := splitAddress(host + "/" + channel); !ok || !good || strings.Contains(text, "/") {
		return ""
	}
	return "; did you mean " + host + "/" + channel + "?"
}

// splitAddress reports whether text is an address, and whether it names the whole host.
func splitAddress(text string) (a Address, whole, ok bool) {
	protocol, rest := cutAchd(strings.TrimPrefix(text, "ach://"))
	host, channel, more := strings.Cut(rest, "/")
	if !more {
		channel = "*"
	}
	good := !strings.ContainsAny(host+channel, "/,") && CheckPattern("", host) == nil && CheckPattern("", channel) == nil
	return Address{plainAchd(protocol + host), channel}, !more, good
}

// CutTarget takes HOST or HOST/NAME apart, where a push goes to.
func CutTarget(text string) (host, name string, named bool) {
	protocol, rest := cutAchd(text)
	host, name, named = strings.Cut(rest, "/")
	return plainAchd(protocol + host), name, named
}

// String prints HOST/CHANNEL.
func (a Address) String() string { return a.Host + "/" + a.Channel }

// MatchesHost reports whether the address may be one of the host's.
func (a Address) MatchesHost(host string) bool { return Match(a.Host, host) }

// Matches reports whether the address names a channel of a host.
func (a Address) Matches(host, channel string) bool {
	return Match(a.Host, host) && Match(a.Channel, channel)
}
