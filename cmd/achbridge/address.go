package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"achbridge/bridge"
)

// address is HOST/CHANNEL, each a pattern as in path.Match.
type address struct{ host, channel string }

// parseAddress reads HOST/PATTERN, ach://HOST/PATTERN, or HOST, which stands
// for all channels of the host.
func parseAddress(text string) (address, error) {
	host, channel, ok := strings.Cut(strings.TrimPrefix(text, "ach://"), "/")
	if !ok {
		channel = "*"
	}
	for _, pattern := range []string{host, channel} {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.Contains(pattern, "/") {
			return address{}, fmt.Errorf("%q: want HOST, HOST/CHANNEL or HOST/PATTERN, as in 'krang/*'", text)
		}
	}
	return address{host, channel}, nil
}

func (a address) String() string { return a.host + "/" + a.channel }

func (a address) matchesHost(host string) bool {
	h, _ := path.Match(a.host, host)
	return h
}

func (a address) matches(host, channel string) bool {
	c, _ := path.Match(a.channel, channel)
	return c && a.matchesHost(host)
}

// filter keeps the channels that match. It never returns nil: in JSON nothing
// is an empty list.
func (a address) filter(list []bridge.RemoteChannel) []bridge.RemoteChannel {
	kept := []bridge.RemoteChannel{}
	for _, c := range list {
		if a.matches(c.Host, c.Channel) {
			kept = append(kept, c)
		}
	}
	return kept
}

// mergeChannels takes what links tell, and for nodes without a link what they
// announce; sorted by host and channel.
func mergeChannels(linked, found []bridge.RemoteChannel) []bridge.RemoteChannel {
	known := map[string]bool{}
	for _, c := range linked {
		known[c.Node] = true
	}
	all := slices.Clone(linked)
	for _, c := range found {
		if !known[c.Node] {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(x, y bridge.RemoteChannel) int {
		return cmp.Or(strings.Compare(x.Host, y.Host), strings.Compare(x.Channel, y.Channel), strings.Compare(x.Node, y.Node))
	})
	return all
}
