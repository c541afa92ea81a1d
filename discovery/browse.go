package discovery

import (
	"context"
	"slices"
	"time"
)

// quiet is how long Browse keeps listening after the last new answer.
const quiet = 700 * time.Millisecond

// Browse searches for peers once and returns them, merged by Hosts, after timeout or 0.7 s after the last new answer. An
// empty list is not an error. It is an error if this host has no network to search on and cfg lists neither peers nor
// domains.
func Browse(ctx context.Context, cfg Config, timeout time.Duration) ([]Peer, error) {
	b, err := NewBrowser(cfg)
	if err != nil {
		return nil, err
	}
	b.skipDelay = true
	links, err := usableLinks(cfg.Interfaces)
	if err == nil && len(links) == 0 && len(cfg.Static)+len(cfg.Domains) == 0 {
		err = noInterface(cfg.Interfaces)
	}
	if err != nil {
		return nil, err
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var peers []Peer
	quietTimer := time.AfterFunc(timeout, cancel)
	defer quietTimer.Stop()
	err = b.Run(ctx, func(ps []Peer) {
		peers = ps
		if slices.ContainsFunc(ps, func(p Peer) bool { return p.Source != SourceStatic || p.Node != "" }) {
			quietTimer.Reset(quiet)
		}
	})
	if err == nil {
		err = outer.Err()
	}
	return Hosts(peers), err
}
