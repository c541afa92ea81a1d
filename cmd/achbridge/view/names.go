package view

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"achbridge/bridge"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
)

// LongestAsk limits the time of one request for the channels of other hosts.
const LongestAsk = 2 * time.Second

// mostMeters limits the number of channels measured at once. A channel of another host may need a
// mirror and a connection to the daemon.
const mostMeters = 64

// Names returns the channels that match args, sorted, as names of this host or HOST/CHANNEL.
func (h Host) Names(ctx context.Context, c *api.Client, args []string) ([]string, error) {
	var names []string
	for _, text := range args {
		found := []string{text}
		var err error
		switch {
		case !rule.IsPattern(text):
		case strings.Contains(text, "/"):
			found, err = h.remoteMatches(ctx, c, text)
		default:
			found, err = h.localMatches(text)
		}
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, ui.NotFound(fmt.Errorf("%s: no channel matches", text), "achbridge ls lists those of other hosts, achbridge channel ls those of this one")
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > mostMeters {
		return nil, ui.Usage(fmt.Errorf("%d channels match, and %d can be measured at once", len(names), mostMeters), "choose fewer of them")
	}
	return names, nil
}

func (h Host) remoteMatches(ctx context.Context, c *api.Client, pattern string) (names []string, err error) {
	match, err := rule.ParseChannels(pattern)
	if err != nil {
		return nil, ui.Usage(err, "")
	}
	var list []status.RemoteChannel
	if _, err := c.Get(ctx, "/v1/channels?"+url.Values{"match": {match.String()}, "wait": {LongestAsk.String()}}.Encode(), &list); err != nil {
		return nil, err
	}
	for _, r := range list {
		if !r.Closed && !r.Unproved {
			names = append(names, r.Host+"/"+r.Channel)
		}
	}
	return names, nil
}

// localMatches returns the matching channels of this host without the helper channels of the daemon, as record does.
func (h Host) localMatches(pattern string) (names []string, err error) {
	if err := CheckPatterns([]string{pattern}); err != nil {
		return nil, err
	}
	infos, err := h.Dir.List()
	if err != nil {
		return nil, ui.Failure(err, "")
	}
	for _, info := range infos {
		if rule.Match(pattern, info.Name) && !bridge.IsHelper(info.Name, info.Tag) {
			names = append(names, info.Name)
		}
	}
	return names, nil
}

// CheckPatterns returns an error for a pattern that cannot match a channel of this host.
func CheckPatterns(patterns []string) error {
	for _, p := range patterns {
		if strings.Contains(p, "/") {
			return ui.Usage(fmt.Errorf("%q: want a channel of this host, and there is no / in their names", p),
				"of another host, mirror it first: achbridge mirror "+p)
		}
		if rule.CheckPattern("", p) != nil {
			return NoPattern(p)
		}
	}
	return nil
}

// NoPattern returns the error that a text is not a pattern.
func NoPattern(text string) error {
	return ui.Usage(fmt.Errorf("%q: not a pattern", text), "* stands for any text, ? for one character, [ab] for one of them")
}
