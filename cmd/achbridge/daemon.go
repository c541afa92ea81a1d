package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"achbridge/bridge"
	"achbridge/bridge/transport"
	"achbridge/discovery"
	"achbridge/localach"
)

// running is one daemon: a node, how it finds peers, and how it is told what to
// do.
type running struct {
	log      *slog.Logger
	self     discovery.Peer
	udp      sockets
	endpoint *transport.Endpoint
	watcher  *localach.Watcher
	node     *bridge.Node
	seek     *seek
	listener net.Listener
	about    daemonInfo
	mu       sync.Mutex
	peers    []discovery.Peer // what discovery found last
	told     map[string]bool  // node ids of strangers that the log has named
}

// maxTold bounds what a noisy network can make us remember.
const maxTold = 1000

// plan is what a daemon is to be, read and checked.
type plan struct {
	*settings
	wishes
	key    transport.Key
	socket string
}

func (a *app) plan(s *settings) (p plan, err error) {
	p.settings = s
	if p.wishes, err = s.wishes(); err != nil {
		return p, misused(err, "")
	}
	path, err := a.keyFile(s.Key, a.findKey)
	if err != nil {
		return p, err
	}
	if p.key, err = readKey(path); err != nil {
		return p, err
	}
	p.socket, err = a.socketFor(s.Control)
	return p, err
}

// newDaemon opens everything that can fail for a reason the operator can mend;
// when it returns an error nothing is left open.
func (a *app) newDaemon(s *settings, log *slog.Logger) (*running, error) {
	p, err := a.plan(s)
	if err != nil {
		return nil, err
	}
	d := &running{log: log, told: map[string]bool{}}
	if err := d.open(a, p); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *running) open(a *app, p plan) (err error) {
	if d.listener, err = listenControl(p.socket); err != nil {
		return err
	}
	if d.udp, err = listenUDP(p.Listen, p.Transport); err != nil {
		return err
	}
	id := a.identity(p.State, d.log)
	if d.endpoint, err = d.udp.listen(transport.Config{Key: p.key, Node: id, Host: p.Name, Log: d.log}); err != nil {
		return misused(err, "")
	}
	if d.watcher, err = localach.NewWatcher(); err != nil {
		return failed(err, "")
	}
	d.node, err = bridge.New(bridge.Config{
		Host: p.Name, Node: id, Dir: a.dir(), Endpoint: d.endpoint,
		Source: bridge.ShmSource(a.dir(), d.watcher),
		Export: p.Export, Relay: p.Relay, Accept: p.Accept, Adopt: p.Adopt,
		Mirrors: p.mirrors, Pushes: p.pushes, Log: d.log,
	})
	if err != nil {
		return misused(err, "")
	}
	d.describe(p.key.Network(), p.socket)
	d.self = discovery.Peer{Host: p.Name, Node: id.String(), Network: p.key.Network()}
	if d.seek, err = newSeek(p, d); err != nil {
		return misused(err, "")
	}
	return nil
}

// Run works until ctx ends or a part of the daemon fails, and closes
// everything.
func (d *running) Run(ctx context.Context) error {
	defer d.close()
	d.log.Info("running", "host", d.self.Host, "node", d.self.Node, "network", d.self.Network,
		"listen", d.about.Listen, "control", d.about.Control, "version", d.about.Version)
	group, ctx := errgroup.WithContext(ctx)
	control := &control{node: d.node, found: d.announced, about: d.about, log: d.log}
	group.Go(func() error { return d.watcher.Run(ctx) })
	group.Go(func() error { return d.node.Run(ctx) })
	group.Go(func() error { return control.serve(ctx, d.listener) })
	d.seek.run(ctx, group, d.found)
	err := group.Wait()
	d.log.Info("left", "host", d.self.Host)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// close is safe on a half-made daemon.
func (d *running) close() {
	if d.endpoint != nil {
		d.endpoint.Close()
	}
	d.udp.close()
	if d.listener != nil {
		d.listener.Close()
	}
}

// announced are the channels that discovery knows of.
func (d *running) announced() []bridge.RemoteChannel {
	d.mu.Lock()
	defer d.mu.Unlock()
	return announcedChannels(members(d.peers, d.self))
}

// found takes what discovery found. Hosts of other networks are told of once.
func (d *running) found(peers []discovery.Peer) {
	d.mu.Lock()
	for _, p := range strangers(peers, d.self) {
		if !d.told[p.Node] && len(d.told) < maxTold {
			d.told[p.Node] = true
			d.log.Info("peer of another network left alone: it has another key", "peer", p.Host, "node", p.Node, "network", p.Network)
		}
	}
	d.peers = slices.Clone(peers)
	d.mu.Unlock()
	d.node.SetPeers(dialable(peers, d.self))
}

func (d *running) describe(network, socket string) {
	d.about = daemonInfo{
		Version: buildOf(debug.ReadBuildInfo()).Version,
		PID:     os.Getpid(),
		Network: network,
		Listen:  d.udp.at.String(),
		Control: socket,
	}
}

func (a *app) socketFor(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	path, err := a.controlPath()
	if err != nil {
		return "", misused(fmt.Errorf("control socket: no place for it: %w", err), "name one: --control PATH")
	}
	return path, nil
}

// identity is the node's id; one that cannot be kept is a warning.
func (a *app) identity(dir string, log *slog.Logger) transport.NodeID {
	var err error
	if dir == "" {
		dir, err = a.statePath()
	}
	id := randomIdentity()
	if err == nil {
		id, err = nodeIdentity(dir)
	}
	if err != nil {
		log.Warn("node id not kept: this run has its own; peers will take the next one for another host", "err", err)
	}
	return id
}
