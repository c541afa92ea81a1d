package api

import (
	"cmp"
	"slices"
	"strings"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

// Filter returns the channels that match a. It never returns nil, so that JSON shows an
// empty list and not null.
func Filter(a rule.Address, list []status.RemoteChannel) []status.RemoteChannel {
	kept := []status.RemoteChannel{}
	for _, c := range list {
		if a.Matches(c.Host, c.Channel) {
			kept = append(kept, c)
		}
	}
	return kept
}

// MergeChannels returns the channels in linked, which linked nodes list, and those in
// found, which other nodes announce. It leaves out announcements of linked nodes, and
// sorts by host, channel and node.
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
