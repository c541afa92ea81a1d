package api

import (
	"cmp"
	"slices"
	"strings"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// Filter keeps the channels that match. It never returns nil: in JSON nothing
// is an empty list.
func Filter(a rule.Address, list []status.RemoteChannel) []status.RemoteChannel {
	kept := []status.RemoteChannel{}
	for _, c := range list {
		if a.Matches(c.Host, c.Channel) {
			kept = append(kept, c)
		}
	}
	return kept
}

// MergeChannels takes what links tell, and for nodes without a link what they
// announce; sorted by host and channel.
func MergeChannels(linked, found []status.RemoteChannel) []status.RemoteChannel {
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
	slices.SortFunc(all, func(x, y status.RemoteChannel) int {
		return cmp.Or(strings.Compare(x.Host, y.Host), strings.Compare(x.Channel, y.Channel), strings.Compare(x.Node, y.Node))
	})
	return all
}
