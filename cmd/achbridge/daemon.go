package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	dir      localach.Dir
	seek     *seek
	listener net.Listener
	http     net.Listener // nil: off
	trust    *standing
	about    daemonInfo // but what changes, see info
	more     *reveal
	dialMu   sync.Mutex // the node gets its peers in the order in which they were found
	mu       sync.Mutex
	peers    []discovery.Peer // what discovery found last
	told     map[string]bool  // node ids of strangers that the log has named

	load      func() (*config, error) // reads the configuration again
	level     *slog.LevelVar          // of the log
	reloading sync.Mutex
	current   atomic.Pointer[config]
}

// config is what the daemon was told last. Nobody changes it.
func (d *running) config() *config { return d.current.Load() }

// maxTold bounds what a noisy network can make us remember.
const maxTold = 1000

// plan is what a daemon is to be, read and checked.
type plan struct {
	*config
	trust  *standing
	socket string
}

func (a *app) plan(c *config) (p plan, err error) {
	p.config = c
	path, err := a.keyFile(c.Key, a.findKey)
	if err != nil {
		return p, err
	}
	if p.trust, err = newStanding(path); err != nil {
		return p, err
	}
	if err := c.nameBy(p.trust.held()); err != nil {
		return p, err
	}
	p.socket, err = a.socketFor(c.Control)
	return p, err
}

// newDaemon opens everything that can fail for a reason the operator can mend;
// when it returns an error nothing is left open.
func (a *app) newDaemon(c *config, log *slog.Logger) (*running, error) {
	p, err := a.plan(c)
	if err != nil {
		return nil, err
	}
	d := &running{log: log, told: map[string]bool{}, level: &slog.LevelVar{}}
	d.load = func() (*config, error) { return c, nil }
	d.current.Store(c)
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
	if d.http, err = p.HTTP.listen(); err != nil {
		return err
	}
	if d.udp, err = listenUDP(p.Listen, p.Transport); err != nil {
		return err
	}
	id := p.trust.held().Node()
	if id == (transport.NodeID{}) {
		id = a.identity(p.State, p.Name, d.log)
	}
	if d.endpoint, err = d.udp.listen(transport.Config{Key: p.trust.held(), Node: id, Host: p.Name, Log: d.log}); err != nil {
		return misused(err, "")
	}
	if d.watcher, err = localach.NewWatcher(); err != nil {
		return failed(err, "")
	}
	cfg := p.wanted()
	cfg.Node, cfg.Dir, cfg.Endpoint, cfg.Log = id, a.dir(), d.endpoint, d.log
	d.dir = a.dir()
	cfg.Source = bridge.ShmSource(a.dir(), d.watcher)
	d.node, err = bridge.New(cfg)
	if err != nil {
		return misused(err, "")
	}
	d.trust = p.trust
	d.recall(a.stateFile(p.State, revokedFile))
	d.describe(p.socket)
	d.self = discovery.Peer{Host: p.Name, Node: id.String(), Network: p.trust.held().Network(), Ports: d.udp.ports()}
	d.more = &reveal{node: d.node, found: d.members, dial: d.dial, asked: map[string]time.Time{}}
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
		"listen", d.about.Listen, "control", d.about.Control, "config", d.config().path, "version", d.about.Version)
	group, ctx := errgroup.WithContext(ctx)
	o := &overview{look: func() statusReply { return statusReply{d.info(), runtime.NumGoroutine(), d.node.Status()} }}
	control := &control{node: d.node, found: d.announced, more: d.more, status: o.fresh, reload: d.reload, explain: d.explain, setup: d.setup, why: d.why, log: d.log}
	group.Go(func() error { return d.watcher.Run(ctx) })
	group.Go(func() error { return d.node.Run(ctx) })
	group.Go(func() error { return d.watchFit(ctx) })
	group.Go(func() error { return d.watchTrust(ctx) })
	group.Go(func() error { return control.serve(ctx, d.listener) })
	if d.http != nil {
		f := newFeed(o, d.node)
		group.Go(func() error { f.run(ctx); return nil })
		group.Go(func() error { return serveHTTP(ctx, d.http, httpRoutes(d.node, d.info, o, f), d.log) })
	}
	group.Go(func() error {
		manager{d.log}.watch(ctx, func() { d.node.Alive() })
		return nil
	})
	d.seek.run(ctx, group, d.found)
	err := group.Wait()
	d.log.Info("left", "host", d.self.Host)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// explain says which rules apply to HOST/CHANNEL as things are.
func (d *running) explain(channel string) (explanation, error) {
	e, err := d.config().explain(channel, d.node.Wish)
	if err != nil {
		return e, badRequest{err}
	}
	for _, r := range d.node.Channels() {
		for i, v := range e.Verdicts {
			if v.Channel == r.Host+"/"+r.Channel {
				e.Verdicts[i] = v.unlessClosed(r)
			}
		}
	}
	return e, nil
}

// close is safe on a half-made daemon.
func (d *running) close() {
	if d.endpoint != nil {
		d.endpoint.Close()
	}
	d.udp.close()
	for _, ln := range []net.Listener{d.listener, d.http} {
		if ln != nil {
			ln.Close()
		}
	}
}

// announced are the channels that discovery knows of.
func (d *running) announced() []bridge.RemoteChannel { return announcedChannels(d.members()) }

// members are the hosts of our network that discovery knows of.
func (d *running) members() []discovery.Peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return members(d.peers, d.membership())
}

// found takes what discovery found. Hosts of other networks are told of once.
func (d *running) found(peers []discovery.Peer) {
	d.mu.Lock()
	for _, p := range strangers(peers, d.membership()) {
		if !d.told[p.Node] && len(d.told) < maxTold {
			d.told[p.Node] = true
			d.log.Info("peer of another network left alone: it has another key", "peer", p.Host, "node", p.Node, "network", p.Network)
		}
	}
	d.peers = slices.Clone(peers)
	d.mu.Unlock()
	d.dial()
}

// dial gives the node what discovery found, and has it dial whom it must for its
// channels.
func (d *running) dial() {
	d.dialMu.Lock()
	defer d.dialMu.Unlock()
	peers := dialable(d.members(), d.membership())
	for i := range peers {
		peers[i].Static = peers[i].Static || d.more.wants(peers[i].Host)
	}
	d.node.SetPeers(peers)
}

func (d *running) describe(socket string) {
	d.about = daemonInfo{
		Version: buildOf(debug.ReadBuildInfo()).Version,
		PID:     os.Getpid(),
		Listen:  d.udp.at.String(),
		Control: socket,
	}
	if d.http != nil {
		d.about.HTTP = d.http.Addr().String()
	}
}

// setup is what the daemon was told.
func (d *running) setup() daemonSetup {
	c := d.config()
	return daemonSetup{
		Config: absolute(c.path), Key: absolute(d.trust.path), State: absolute(c.State),
		Discovery: c.Discovery.String(), Interfaces: slices.Concat([]string{}, c.Interfaces),
	}
}

// absolute is a path from wherever it is read; "" stays.
func absolute(path string) string {
	if full, err := filepath.Abs(path); path != "" && err == nil {
		return full
	}
	return path
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

// stateFile is a file in the state directory, "" when there is none.
func (a *app) stateFile(dir, file string) string {
	if dir == "" {
		var err error
		if dir, err = a.statePath(); err != nil {
			return ""
		}
	}
	return filepath.Join(dir, file)
}

// identity is the node's id; one that cannot be kept is a warning.
func (a *app) identity(dir, host string, log *slog.Logger) transport.NodeID {
	var err error
	if dir == "" {
		dir, err = a.statePath()
	}
	id := randomIdentity()
	if err == nil {
		id, err = nodeIdentity(dir, host)
	}
	if err != nil {
		log.Warn("node id not kept: this run has its own; peers will take the next one for another host", "err", err)
	}
	return id
}
