package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"achbridge/bridge"
	"achbridge/bridge/achd"
	"achbridge/bridge/layouts"
	"achbridge/bridge/status"
	"achbridge/bridge/transport"
	"achbridge/bridge/trust"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/kept"
	"achbridge/cmd/achbridge/recording"
	"achbridge/cmd/achbridge/service"
	"achbridge/cmd/achbridge/ui"
	"achbridge/discovery"
	"achbridge/localach"
)

// Daemon runs a node with discovery, and the interfaces by which people and programs
// control the node.
type Daemon struct {
	log       *slog.Logger
	self      discovery.Peer
	udp       Sockets
	endpoint  *transport.Endpoint
	watcher   *localach.Watcher
	node      *bridge.Node
	dir       localach.Dir
	announcer *announcer
	ports     ports
	achd      *achd.Server // nil if achd's protocol is off
	trust     *keyState
	machines  *machineFile
	keeper    *kept.Keeper
	recorder  *recording.MemoryRecorder // nil if the configuration has none
	snapshots string                    // directory of the recorder's snapshots
	viewers   *foxgloveServer           // nil if no viewers are served
	about     api.DaemonInfo            // the fields that do not change; info adds the others
	more      *linkTo
	hub       wayOut // nil if no hub is used
	hubCreds  string // digest of the credentials file with which the hub was opened
	network   network
	settings  settings
}

// ports holds the listeners of a daemon; a listener that is off is nil.
type ports struct {
	control, http, foxglove, achd net.Listener
}

// network holds the hosts that discovery and the hub found.
type network struct {
	dialMu sync.Mutex // serializes dial, so that the node never gets an older peer list after a newer one

	mu          sync.Mutex       // guards the following fields
	peers       []discovery.Peer // peers that discovery found, replaced as a whole
	atHub       []string         // hosts at the hub, replaced as a whole
	loggedPeers map[string]bool  // node ids of peers of other networks that were logged
}

// settings holds the configuration of a daemon, which a reload replaces.
type settings struct {
	load    func() (*config.Config, error) // reads the configuration again
	level   *slog.LevelVar                 // log level
	current atomic.Pointer[config.Config]

	mu      sync.Mutex    // held by a reload
	layouts layouts.Rules // sent to other hosts; guarded by mu
}

// config returns the current configuration. Callers must not change it.
func (d *Daemon) config() *config.Config { return d.settings.current.Load() }

// maxLogged limits how many peers of other networks are logged and remembered.
const maxLogged = 1000

// Host holds the parameters of a daemon that come from its computer and its command line.
type Host struct {
	config.Places
	Dir     localach.Dir
	Version string                         // version of this program
	Load    func() (*config.Config, error) // reads the configuration again; nil if it never changes
	Level   *slog.LevelVar                 // log level, set by a reload; nil if it never changes
}

// plan is a checked configuration with the key and the path of the control socket.
type plan struct {
	*config.Config
	trust  *keyState
	socket string
}

func (h Host) plan(c *config.Config) (p plan, err error) {
	p.Config = c
	if p.trust, err = h.newKeyState(c.Key); err != nil {
		return p, err
	}
	if err := c.NameBy(p.trust.held()); err != nil {
		return p, err
	}
	p.socket, err = h.SocketFor(c.Control)
	return p, err
}

// New opens everything that can fail for a reason that the operator can fix. If it
// returns an error, nothing is left open.
func (h Host) New(c *config.Config, log *slog.Logger) (*Daemon, error) {
	p, err := h.plan(c)
	if err != nil {
		return nil, err
	}
	d := &Daemon{log: log, network: network{loggedPeers: make(map[string]bool)}}
	d.settings.level, d.settings.load = h.Level, h.Load
	if d.settings.load == nil {
		d.settings.load = func() (*config.Config, error) { return c, nil }
	}
	if d.settings.level == nil {
		d.settings.level = &slog.LevelVar{}
	}
	d.settings.current.Store(c)
	if err := d.open(h, p); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *Daemon) open(h Host, p plan) (err error) {
	if d.ports.control, err = service.ListenSocket(p.socket, service.Process{Called: "daemon", Second: "--control PATH --state DIR --listen :PORT"}); err != nil {
		return err
	}
	if d.ports.http, err = service.ListenHTTP("http", p.HTTP); err != nil {
		return err
	}
	if d.ports.foxglove, err = listenFoxglove(p.Config); err != nil {
		return err
	}
	if d.ports.achd, err = listenAchd(p.AchdListen); err != nil {
		return err
	}
	if d.udp, err = ListenUDP(p.Listen, p.Transport); err != nil {
		return err
	}
	who := h.identity(p.State, p.Name, d.log)
	id := cmp.Or(p.trust.held().Node(), who.id)
	if d.endpoint, err = d.udp.Listen(transport.Config{
		Key: p.trust.held(), Node: id, Host: p.Name, Log: d.log, ResetSecret: h.resetSecret(p.State, d.log),
	}); err != nil {
		return ui.Usage(err, "")
	}
	if d.watcher, err = localach.NewWatcher(); err != nil {
		return ui.Failure(err, "")
	}
	cfg := wanted(p.Config)
	var wrong []string
	cfg.Layouts, wrong = layoutsOf(p.Config)
	d.settings.layouts = cfg.Layouts
	d.warnOfLayouts(wrong)
	for _, text := range p.Warnings() {
		d.log.Warn("setting is probably wrong", "err", text)
	}
	if risk := p.KernelRisk(); risk != "" {
		d.log.Warn("kernel channels are used, which can crash this host", "err", risk)
	}
	cfg.Kernel, cfg.KernelMirrors = kernelChannels(p.Kernel, h.Dir, d.log)
	if d.hub, err = openHub(p.Config, d.log); err != nil {
		return err
	}
	d.hubCreds = digest(p.HubCreds)
	if d.hub != nil {
		cfg.Hub = d.hub
	}
	cfg.Node, cfg.Dir, cfg.Endpoint, cfg.Log = id, h.Dir, d.endpoint, d.log
	cfg.Published = publishedIn(h.Dir)
	if p.Discovery {
		cfg.DialAchd = dialAchd(discovery.NewAchdHosts(p.Interfaces).Addr, achd.DialNetwork)
	}
	d.dir = h.Dir
	cfg.Machine = machineOf(who.hardware, bootID("/proc"), id)
	d.machines = newMachineFile(h.StateFile(p.State, machinesName), d.log)
	cfg.Machines, cfg.KeepMachines = d.machines.read(), d.machines.keep
	cfg.Locks, cfg.KeepLocks = lockFile(h.StateFile(p.State, locksName), d.log)
	cfg.Source, cfg.CPUWait = bridge.ShmSource(h.Dir, d.watcher), new(localach.CPUWait).Share
	events, err := d.createChannels(h, p.Config)
	if err != nil {
		return err
	}
	d.node, err = bridge.New(cfg)
	if err != nil {
		return ui.Usage(err, "")
	}
	for _, e := range events {
		d.node.LogEvent(e.level, e.message, e.event, "cause", e.event.Text)
	}
	if err := d.openRecorder(h, p.Config); err != nil {
		return err
	}
	d.achd = d.newAchd(p.Config, cfg.Source.NewData)
	if err := d.openFoxglove(h, p); err != nil {
		return err
	}
	d.trust = p.trust
	d.recall(h.StateFile(p.State, config.RevokedFile))
	d.describe(h, p.socket)
	d.self = discovery.Peer{Host: p.Name, Node: id.String(), Network: p.trust.held().Network(), Ports: d.udp.ports()}
	d.more = &linkTo{node: d.node, members: d.members, atHub: d.hubHosts, dial: d.dial, requestedAt: map[string]time.Time{}}
	if d.announcer, err = newAnnouncer(p, d); err != nil {
		return ui.Usage(err, "")
	}
	return nil
}

// Run runs the daemon until ctx ends or a part of the daemon fails. Then it closes
// everything.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.close()
	d.log.Info("daemon started", "host", d.self.Host, "node", d.self.Node, "network", d.self.Network,
		"listen", d.about.Listen, "control", d.about.Control, "config", d.config().Path, "version", d.about.Version)
	group, ctx := errgroup.WithContext(ctx)
	var past statusHistory
	o := &overview{sample: func() api.StatusReply { return d.statusReply(&past) }}
	control := &control{Daemon: d, status: o.fresh, why: d.why}
	group.Go(func() error { return d.watcher.Run(ctx) })
	hubCtx, leaveHub := context.WithCancel(context.WithoutCancel(ctx)) // the hub outlives ctx, since goodbyes go through it too
	group.Go(func() error {
		defer leaveHub()
		defer d.hangUp() // closes the sockets before the slower parts end, so that no peer links with a stopped node
		return d.node.Run(ctx)
	})
	if d.hub != nil {
		group.Go(func() error { return d.hub.Run(hubCtx) })
		group.Go(func() error { return d.hub.Hosts(ctx, d.hubFound) })
	}
	group.Go(func() error { d.machines.run(ctx); return nil })
	group.Go(func() error { d.keeper.Run(ctx, d.reportKept); return nil })
	if d.recorder != nil {
		group.Go(func() error { d.record(ctx); return nil })
	}
	group.Go(func() error { return d.watchFit(ctx) })
	group.Go(func() error { return d.watchTrust(ctx) })
	if !d.config().IsNamed() && d.trust.held().Host() == "" {
		group.Go(func() error { return d.watchName(ctx) })
	}
	group.Go(func() error { return control.serve(ctx, d.ports.control) })
	if d.ports.http != nil {
		f := newFeed(o, d.node)
		group.Go(func() error { f.run(ctx); return nil })
		group.Go(func() error {
			return service.ServeHTTP(ctx, d.ports.http, service.ForOurHosts(d.httpRoutes(o, f), d.httpNames), d.log)
		})
	}
	if d.viewers != nil {
		group.Go(func() error { return d.viewers.serve(ctx, d) })
	}
	if d.achd != nil {
		group.Go(func() error { return d.serveAchd(ctx) })
		group.Go(func() error { return d.answerAchd(ctx) })
	}
	group.Go(func() error {
		service.Manager{Log: d.log}.Watch(ctx, func() { d.node.Alive() })
		return nil
	})
	d.announcer.run(ctx, group, d.found)
	err := group.Wait()
	d.log.Info("daemon stopped", "host", d.self.Host)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// httpNames returns the host names that URLs of the web page may have.
func (d *Daemon) httpNames() service.HostNames {
	c := d.config()
	return service.OwnNames(c.Name, c.HTTPHosts)
}

// explain returns the rules that currently apply to HOST/CHANNEL.
func (d *Daemon) explain(_ context.Context, query url.Values) (config.Explanation, error) {
	e, err := d.config().Explain(query.Get("channel"), d.node.MirrorRequest)
	if err != nil {
		return e, badRequest{err}
	}
	for _, r := range d.node.Channels() {
		for i, v := range e.Judgements {
			if r.Closed && v.Channel == r.Host+"/"+r.Channel {
				e.Judgements[i] = v.ClosedBy(r.Host)
			}
		}
	}
	return e, nil
}

// close closes everything that open has opened, also after open failed halfway.
func (d *Daemon) close() {
	d.hangUp()
	for _, ln := range []net.Listener{d.ports.control, d.ports.http, d.ports.foxglove, d.ports.achd} {
		if ln != nil {
			ln.Close()
		}
	}
}

// hangUp ends every session and closes the sockets of the links.
func (d *Daemon) hangUp() {
	if d.endpoint != nil {
		d.endpoint.Close()
	}
	d.udp.Close()
}

// announced returns the channels that discovery knows of, under proved host names.
func (d *Daemon) announced() []status.RemoteChannel {
	return asProved(AnnouncedChannels(d.members()), d.node.Proved())
}

// members returns the hosts of our networks that discovery knows of, one entry for each host.
func (d *Daemon) members() []discovery.Peer {
	d.network.mu.Lock()
	peers := Members(d.network.peers, d.membership())
	d.network.mu.Unlock()
	return discovery.Hosts(peers)
}

// found stores the peers that discovery found and has the node dial them. It logs each peer of another network once.
func (d *Daemon) found(peers []discovery.Peer) {
	d.network.mu.Lock()
	for _, p := range UnknownPeers(peers, d.membership()) {
		if !d.network.loggedPeers[p.Node] && len(d.network.loggedPeers) < maxLogged {
			d.network.loggedPeers[p.Node] = true
			d.log.Info("peer ignored, it has the key of another network", "peer", p.Host, "node", p.Node, "network", p.Network)
		}
	}
	d.network.peers = slices.Clone(peers)
	d.network.mu.Unlock()
	d.dial()
}

// dial passes to the node the peers from discovery and the hub. Peers whose channels a user
// asked for are marked, so that the node dials them.
func (d *Daemon) dial() {
	d.network.dialMu.Lock()
	defer d.network.dialMu.Unlock()
	d.network.mu.Lock()
	found := d.network.peers // never changed, only replaced
	d.network.mu.Unlock()
	peers := append(dialable(found, d.membership()), d.hubPeers()...)
	for i := range peers {
		peers[i].Asked = d.more.wants(peers[i].Host)
	}
	d.node.SetPeers(peers)
}

func (d *Daemon) describe(h Host, socket string) {
	d.about = api.DaemonInfo{
		Version: h.Version,
		PID:     os.Getpid(),
		Listen:  d.udp.At.String(),
		Control: socket,
	}
	if d.ports.http != nil {
		d.about.HTTP = d.ports.http.Addr().String()
	}
	if d.viewers != nil {
		d.about.Foxglove = d.viewers.address
	}
}

// setup returns the paths of the daemon's files and its interfaces, for achbridge doctor.
func (d *Daemon) setup() (api.DaemonSetup, error) {
	c := d.config()
	s := api.DaemonSetup{
		Config: config.Absolute(c.Path), Key: config.Absolute(d.trust.path), State: config.Absolute(c.State),
		Discovery: c.Discovery.String(), Interfaces: slices.Concat([]string{}, c.Interfaces), Memberships: []api.Membership{},
	}
	for _, m := range d.announcer.memberships() {
		membership := api.Membership{Interface: m.Interface, IPv6: m.IPv6}
		if m.Err != nil {
			membership.Error = m.Err.Error()
		}
		s.Memberships = append(s.Memberships, membership)
	}
	return s, nil
}

// identity returns the node's identity. It logs a warning if the identity cannot be stored.
func (h Host) identity(given, host string, log *slog.Logger) identity {
	dir, err := h.StateDir(given)
	who := identity{id: randomIdentity()}
	if err == nil {
		who, err = nodeIdentity(dir, host, hardware("/sys"))
	}
	if err != nil {
		log.Warn("cannot store node id, peers will treat this host as another one after a restart", "err", err)
	}
	if who.before != (trust.NodeID{}) {
		log.Warn("state directory is of another machine or all network cards changed, using a new node id", "state", dir)
	}
	return who
}

// resetSecret returns the secret by which a node shows that it was restarted. If the secret
// cannot be stored, resetSecret only logs a warning.
func (h Host) resetSecret(given string, log *slog.Logger) (secret [32]byte) {
	dir, err := h.StateDir(given)
	if err == nil {
		secret, err = keptSecret(dir)
	}
	if err != nil {
		log.Warn("cannot store reset secret, peers notice a restart only by timeout", "err", err)
	}
	return secret
}
