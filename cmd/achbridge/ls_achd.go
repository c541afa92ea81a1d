package main

import (
	"context"
	"fmt"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/ui"
	"achbridge/discovery"
)

// searchAchd searches the network for channels of hosts that run only achd. It names the hosts by address, as rules do,
// because not every host resolves mDNS names.
func (l *ls) searchAchd(ctx context.Context, match rule.Address) ([]status.RemoteChannel, error) {
	found, err := discovery.BrowseAchd(ctx, l.interfaces, l.timeout)
	if err != nil {
		return nil, ui.Failure(fmt.Errorf("searching the network for achd: %w", err), "")
	}
	list := []status.RemoteChannel{}
	for _, c := range found {
		a, err := rule.ParseChannel("achd://" + c.Addr.String() + "/" + c.Channel)
		if err != nil {
			continue // a rule cannot name this channel
		}
		if rule.Match(match.Channel, a.Channel) && (match.Host == a.Host || rule.Match(match.Host, c.Host)) {
			list = append(list, status.RemoteChannel{
				Host: a.Host, Channel: a.Channel, AnnouncedBy: c.Host, Addrs: []string{c.Addr.String()}, MirroredAs: rule.Mirror{}.Name(a.Host, a.Channel),
			})
		}
	}
	return list, nil
}
