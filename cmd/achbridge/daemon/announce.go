package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"achbridge/bridge"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/service"
	"achbridge/discovery"
)

// announcer connects discovery and the node: it passes discovered peers to the daemon, and
// announces the channels that the node exports.
type announcer struct {
	browser   *discovery.Browser   // nil if the daemon does not look for peers
	announcer *discovery.Announcer // nil if this host is not announced
	node      *bridge.Node
}

func newAnnouncer(p plan, d *Daemon) (*announcer, error) {
	cfg := discovery.Config{
		Self:       d.self,
		Port:       d.udp.At.Port,
		Interfaces: p.Interfaces,
		Static:     p.StaticPeers,
		Domains:    p.Zones,
		Announced:  d.node.Announced,
		Log:        d.log,
	}
	k := &announcer{node: d.node}
	var err error
	if !p.Discovery {
		if len(p.StaticPeers)+len(p.Zones) == 0 {
			return k, nil
		}
		cfg.StaticOnly = true
	} else if k.announcer, err = discovery.NewAnnouncer(cfg); err != nil {
		return nil, err
	}
	k.browser, err = discovery.NewBrowser(cfg)
	return k, err
}

// run starts the goroutines of k in group. It calls found after every change of
// the peer table.
func (k *announcer) run(ctx context.Context, group *errgroup.Group, found func([]discovery.Peer)) {
	if k.browser != nil {
		group.Go(func() error { return k.browser.Run(ctx, found) })
		group.Go(func() error { return k.lookUp(ctx) })
	}
	if k.announcer == nil {
		return
	}
	firstSent := make(chan struct{})
	group.Go(func() error { k.follow(ctx, firstSent); return nil })
	group.Go(func() error {
		<-firstSent // otherwise the first announcement has no channels, and the next one follows 5 s later
		return k.announcer.Run(ctx)
	})
}

// lookUpEvery is the interval at which lookUp resolves the names of listed peers.
const lookUpEvery = 2 * time.Second

// lookUp resolves the names of listed peers again as long as one of them has no link, or only a
// silent one.
func (k *announcer) lookUp(ctx context.Context) error {
	return service.Repeat(ctx, lookUpEvery, func() {
		if k.node.ListedMissing() {
			k.browser.LookUp()
		}
	})
}

const (
	// exportsFirst is the time that a new node gets to find its channels.
	exportsFirst = 200 * time.Millisecond
	// exportsEvery is the interval at which the announced channels are updated.
	exportsEvery = time.Second
)

// follow updates the announced channels from the node's exports, until ctx ends. It closes
// told after the first update, or when ctx ends.
func (k *announcer) follow(ctx context.Context, firstSent chan struct{}) {
	closeFirstSent := sync.OnceFunc(func() { close(firstSent) })
	defer closeFirstSent()
	var last []discovery.Channel
	update := func() {
		now := announce(k.node.Exported())
		if !slices.Equal(now, last) {
			k.announcer.Update(now)
			last = now
		}
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(exportsFirst):
	}
	update()
	closeFirstSent()
	_ = service.Repeat(ctx, exportsEvery, update) // ends only when ctx ends
}

// memberships returns the interfaces that mDNS uses, with an error for each on which the daemon does not receive it.
// It returns nil if the daemon does not look for peers.
func (k *announcer) memberships() []discovery.Probe {
	if k.browser == nil {
		return nil
	}
	return k.browser.Memberships()
}

// join announces this host as a member of another network.
func (k *announcer) join(network string) {
	if k.announcer != nil {
		k.announcer.Join(network)
	}
}

// wanted returns the part of the node's configuration that a reload can change.
func wanted(c *config.Config) bridge.Config {
	return bridge.Config{
		Host: c.Name, Export: c.ExportGrants, Relay: c.Relay, Accept: c.AcceptGrants, Adopt: c.Adopt,
		Mirrors: c.MirrorRules, Pushes: c.PushRules, Muxes: c.MuxRules, NoLoadTest: !c.LoadTest, NoDSCP: !bool(c.DSCP), ForgetAfter: c.ForgetAfter,
	}
}
