package config

import (
	"fmt"
	"path"
	"strings"
)

// Address is HOST/CHANNEL, each a pattern as in path.Match.
type Address struct{ Host, Channel string }

// ParseAddress reads HOST/PATTERN, ach://HOST/PATTERN, or HOST, which stands
// for all channels of the host.
func ParseAddress(text string) (Address, error) {
	host, channel, ok := strings.Cut(strings.TrimPrefix(text, "ach://"), "/")
	if !ok {
		channel = "*"
	}
	for _, pattern := range []string{host, channel} {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.Contains(pattern, "/") {
			return Address{}, fmt.Errorf("%q: want HOST, HOST/CHANNEL or HOST/PATTERN, as in 'krang/*'", text)
		}
	}
	return Address{host, channel}, nil
}

func (a Address) String() string { return a.Host + "/" + a.Channel }

func (a Address) MatchesHost(host string) bool {
	h, _ := path.Match(a.Host, host)
	return h
}

func (a Address) Matches(host, channel string) bool {
	c, _ := path.Match(a.Channel, channel)
	return c && a.MatchesHost(host)
}

// OneChannel reads HOST/CHANNEL, without patterns.
func OneChannel(text string) (Address, error) {
	a, err := ParseAddress(text)
	if err == nil && (!strings.Contains(text, "/") || strings.ContainsAny(a.String(), `*?[\`)) {
		err = fmt.Errorf("%q: want HOST/CHANNEL, as in krang/imu", text)
	}
	return a, err
}
