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

// announcer joins discovery and the node: the node may dial what discovery finds, and
// discovery announces what the node exports.
type announcer struct {
	browser   *discovery.Browser   // nil: we do not look for peers
	announcer *discovery.Announcer // nil: this host is not announced
	node      *bridge.Node
}

func newAnnouncer(p plan, d *Daemon) (*announcer, error) {
	cfg := discovery.Config{
		Self:       d.self,
		Port:       d.udp.At.Port,
		Interfaces: p.Interfaces,
		Static:     p.StaticPeers,
		Domains:    p.Zones,
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

// run starts the parts of k in group; found gets every change of the peer
// table.
func (k *announcer) run(ctx context.Context, group *errgroup.Group, found func([]discovery.Peer)) {
	if k.browser != nil {
		group.Go(func() error { return k.browser.Run(ctx, found) })
		group.Go(func() error { return k.lookUp(ctx) })
	}
	if k.announcer == nil {
		return
	}
	told := make(chan struct{})
	group.Go(func() error { k.follow(ctx, told); return nil })
	group.Go(func() error {
		<-told // else the first announcement has no channels, and the next one comes 5 s later
		return k.announcer.Run(ctx)
	})
}

// lookUpEvery is how often the names of listed peers are resolved while one of them is
// missing.
const lookUpEvery = 2 * time.Second

// lookUp resolves the names of listed peers again while one of them is missing.
func (k *announcer) lookUp(ctx context.Context) error {
	return service.Repeat(ctx, lookUpEvery, func() {
		if k.node.ListedMissing() {
			k.browser.LookUp()
		}
	})
}

const (
	// exportsFirst is how long a node that starts needs to find its channels.
	exportsFirst = 200 * time.Millisecond
	// exportsEvery is how often the announced channels are brought up to date.
	exportsEvery = 500 * time.Millisecond
)

// follow announces the channels that the node exports, until ctx ends. It closes told
// after the first announcement, or when ctx ends.
func (k *announcer) follow(ctx context.Context, told chan struct{}) {
	tell := sync.OnceFunc(func() { close(told) })
	defer tell()
	timer := time.NewTimer(exportsFirst)
	defer timer.Stop()
	var last []discovery.Channel
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := announce(k.node.Exported())
		if !slices.Equal(now, last) {
			k.announcer.Update(now)
			last = now
		}
		tell()
		timer.Reset(exportsEvery)
	}
}

// memberships returns the interfaces that mDNS uses, with an error for each on which it is not received; nil without a browser.
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

// wanted turns the configuration into the one that a node takes.
func wanted(c *config.Config) bridge.Config {
	return bridge.Config{
		Host: c.Name, Export: c.ExportGrants, Relay: c.Relay, Accept: c.AcceptGrants, Adopt: c.Adopt,
		Mirrors: c.MirrorRules, Pushes: c.PushRules, NoLoadTest: !c.LoadTest,
	}
}
