package main

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"achbridge/bridge"
	"achbridge/discovery"
)

// seek joins discovery and the node: what discovery finds the node may dial,
// what the node exports discovery announces.
type seek struct {
	browser   *discovery.Browser
	announcer *discovery.Announcer // nil: this host is not announced
	node      *bridge.Node
	log       *slog.Logger
}

func newSeek(s *settings, d *running, static []discovery.Static) (*seek, error) {
	cfg := discovery.Config{
		Self:       d.self,
		Port:       d.udp.LocalAddr().(*net.UDPAddr).Port,
		Interfaces: s.Interfaces,
		Static:     static,
		Log:        d.log,
	}
	k := &seek{node: d.node, log: d.log}
	var err error
	if s.Discovery == discoveryOff {
		cfg.Interfaces = []string{"(off)"}
	} else if k.announcer, err = discovery.NewAnnouncer(cfg); err != nil {
		return nil, err
	}
	k.browser, err = discovery.NewBrowser(cfg)
	return k, err
}

// run starts the parts of k in group; found gets every change of the peer
// table.
func (k *seek) run(ctx context.Context, group *errgroup.Group, found func([]discovery.Peer)) {
	group.Go(func() error { return k.browser.Run(ctx, found) })
	if k.announcer != nil {
		group.Go(func() error { return k.announcer.Run(ctx) })
		group.Go(func() error { k.follow(ctx); return nil })
	}
}

// exportsEvery is how often the exported channels are compared with what is
// announced.
const exportsEvery = 500 * time.Millisecond

// follow keeps the announced channels those that the node exports.
func (k *seek) follow(ctx context.Context) {
	tick := time.NewTicker(exportsEvery)
	defer tick.Stop()
	var last []discovery.Channel
	for {
		now := announce(k.node.Exported())
		if !slices.Equal(now, last) {
			if err := k.announcer.Update(now); err != nil {
				k.log.Warn("channels not announced", "err", err)
			}
			last = now
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
