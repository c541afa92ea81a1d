package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sync/errgroup"

	"achbridge/bridge/hub"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/service"
	"achbridge/cmd/achbridge/ui"
)

// Config holds the settings of a hub.
type Config struct {
	Dir         Directory
	Listen      string // TCP, ADDRESS:PORT
	HTTP        string // TCP, as Listen; "" is off
	Memory      int64  // memory limit for frames, bytes
	Connections int
	Version     string
	Places      config.Places
	Log         *slog.Logger
}

// Defaults returns the default settings of a hub.
func Defaults() Config {
	return Config{Listen: ":" + hub.DefaultPort, Memory: 256 << 20, Connections: 4096}
}

const (
	// leastMemory has room for eight frames of the largest size.
	leastMemory = 8 * hub.MaxPayload

	// maxPending limits the bytes that wait for one connection: three frames of the largest
	// size with their headers.
	maxPending = 3*hub.MaxPayload + 1<<20
	// maxSubscriptions limits the subscriptions of a connection. A host needs one for each
	// channel that it reads, and a few more.
	maxSubscriptions = 10_000
	// writeLimit is the timeout of a write. It is long, since a slow link may need long for a
	// large frame. Pings detect dead connections.
	writeLimit = time.Minute
	tlsLimit   = 5 * time.Second // timeout of the TLS handshake, and of the proof after it
)

// Server is a running hub.
type Server struct {
	cfg     Config
	log     *slog.Logger
	id      Identity
	began   time.Time
	store   string
	nats    *server.Server
	front   *front
	natsLog *natsLog
	guard   *guard
	members *members
	maker   *maker
	keeper  *keeper
	socket  net.Listener
	http    net.Listener // nil if HTTP is off
}

// New opens everything that can fail for a reason that the operator can fix. If it returns an
// error, nothing is left open.
func New(cfg Config) (*Server, error) {
	if cfg.Memory < leastMemory || cfg.Connections < 2 {
		return nil, ui.Usage(fmt.Errorf("hub: %d bytes of memory, %d connections: it cannot work with so little", cfg.Memory, cfg.Connections), "--memory 64MiB --connections 100")
	}
	s := &Server{cfg: cfg, log: cfg.Log, began: time.Now()}
	if err := s.open(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *Server) open() (err error) {
	if s.id, err = s.cfg.Dir.Identity(); err != nil {
		return err
	}
	if s.id.Foreign {
		return ui.Usage(fmt.Errorf("hub %s: it is for the nats-server at %s, which runs elsewhere", s.cfg.Dir, s.id.Address),
			"achbridge hub config prints what that server needs; another directory has a hub of its own: --dir DIR")
	}
	if s.socket, err = service.ListenSocket(s.cfg.Dir.Socket(), service.Process{Called: "hub", Second: "--dir DIR --listen :PORT"}); err != nil {
		return err
	}
	if s.http, err = service.ListenHTTP("http", s.cfg.HTTP); err != nil {
		return err
	}
	if s.guard, err = newGuard(s.cfg.Dir, s.log); err != nil {
		return err
	}
	listener, err := listen(s.cfg.Listen)
	if err != nil {
		return err
	}
	s.front = &front{listener: listener, guard: s.guard, tls: &tls.Config{Certificates: []tls.Certificate{s.id.Certificate}, MinVersion: tls.VersionTLS13}}
	if s.store, err = makeStore(s.cfg.Places, storeName(s.cfg.Dir)); err != nil {
		return err
	}
	s.natsLog = &natsLog{log: s.log, fatal: make(chan string, 1)}
	if s.nats, err = server.NewServer(s.options()); err != nil {
		return ui.Failure(fmt.Errorf("hub: %w", err), "")
	}
	s.nats.SetLogger(s.natsLog, false, false)
	return s.start()
}

func (s *Server) options() *server.Options {
	return &server.Options{
		ServerName: "achbridge-hub", DontListen: true, ProxyProtocol: true,
		NoSigs: true, NoLog: true, DisableJetStreamBanner: true,
		AuthTimeout:                10,
		CustomClientAuthentication: s.guard,
		MaxConn:                    s.cfg.Connections + 1, // one is the maker's
		MaxSubs:                    maxSubscriptions,
		MaxPayload:                 hub.MaxPayload,
		MaxPending:                 maxPending,
		WriteDeadline:              writeLimit,
		PingInterval:               10 * time.Second,
		MaxPingsOut:                3,
		MaxClosedClients:           s.cfg.Connections,
		JetStream:                  true,
		JetStreamMaxMemory:         s.cfg.Memory,
		JetStreamMaxStore:          1, // almost none; 0 would mean no limit
		StoreDir:                   s.store,
	}
}

// start waits until the server is ready, which takes some milliseconds.
func (s *Server) start() error {
	s.nats.Start()
	if !s.nats.ReadyForConnections(10 * time.Second) {
		select {
		case text := <-s.natsLog.fatal:
			return ui.Failure(fmt.Errorf("hub: %s", text), "")
		default:
			return ui.Failure(errors.New("hub: the server is not ready after 10 s"), "is this host very busy? try again")
		}
	}
	limits := map[string]server.JetStreamAccountLimits{"": { // limits for all hosts together
		MaxMemory: -1, MaxStore: 0, MaxStreams: 20_000, MaxConsumers: 200_000, MaxAckPending: -1,
		MemoryMaxStreamBytes: 2 * hub.MaxPayload, StoreMaxStreamBytes: -1,
	}}
	if err := s.nats.GlobalAccount().UpdateJetStreamLimits(limits); err != nil {
		return ui.Failure(fmt.Errorf("hub: %w", err), "")
	}
	s.members = newMembers(s.nats, s.guard, s.log)
	var err error
	if s.maker, err = newMaker(s.nats, s.guard, s.log); err != nil {
		return err
	}
	s.keeper = newKeeper(s.nats, s.maker, s.cfg.Memory, s.log)
	if err := s.maker.serve(s.keeper.hasRoom); err != nil {
		return err
	}
	s.front.nats, s.front.admit = s.nats, s.maker.admit
	s.front.serve()
	return nil
}

// listen opens the TCP port that hosts dial.
func listen(at string) (net.Listener, error) {
	ln, err := net.Listen("tcp", at)
	if err != nil {
		return nil, ui.Failure(fmt.Errorf("listen %s: %s", at, service.CannotListen(err)), "stop what listens there, or take another port: --listen :PORT")
	}
	return ln, nil
}

// Run runs the hub until ctx ends or a part of the hub fails. Then it closes everything.
func (s *Server) Run(ctx context.Context) error {
	defer s.close()
	boundMemory("/", s.cfg.Memory)
	s.log.Info("hub started", "address", s.id.Address, "listen", s.Addr(), "hosts", len(s.guard.list()), "dir", string(s.cfg.Dir), "version", s.cfg.Version)
	manager := service.Manager{Log: s.log}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.serveControl(ctx) })
	if s.http != nil {
		group.Go(func() error { return service.ServeHTTP(ctx, s.http, s.routes(), s.log) })
	}
	group.Go(func() error { return s.check(ctx) })
	group.Go(func() error { return s.maker.clean(ctx, s.nats) })
	group.Go(func() error {
		manager.Watch(ctx, func() { s.nats.NumClients() })
		return nil
	})
	group.Go(func() error {
		select {
		case text := <-s.natsLog.fatal:
			return ui.Failure(fmt.Errorf("hub: %s", text), "")
		case <-ctx.Done():
			return nil
		}
	})
	manager.Notify(daemon.SdNotifyReady)
	<-ctx.Done()
	manager.Notify(daemon.SdNotifyStopping)
	err := group.Wait()
	s.log.Info("hub stopped", "address", s.id.Address)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

const (
	// readEvery is the interval at which the file hosts and the memory are checked. A removed
	// host is disconnected within a second.
	readEvery     = 250 * time.Millisecond
	checkInterval = 4 // connections are checked once in this number of intervals
)

// check checks the file hosts, the connections and the memory at intervals, until ctx ends.
func (s *Server) check(ctx context.Context) error {
	n := 0
	return service.Repeat(ctx, readEvery, func() {
		gone := s.guard.reread()
		if len(gone) > 0 || n%checkInterval == 0 {
			s.members.check()
		}
		n++
		for _, h := range gone {
			s.members.forget(h.Name)
			s.maker.forget(h.Name)
		}
		s.keeper.check(ctx)
	})
}

// Addr returns the address at which the hub listens.
func (s *Server) Addr() string { return listenText(s.cfg.Listen, s.front.listener) }

// listenText returns the address of ln, with a host only if the option --listen names one.
func listenText(option string, ln net.Listener) string {
	at := ln.Addr().(*net.TCPAddr)
	if option == "" || option[0] == ':' {
		return ":" + strconv.Itoa(at.Port)
	}
	return at.String()
}

// close closes everything that open has opened, also after open failed halfway.
func (s *Server) close() {
	if s.front != nil {
		s.front.close()
	}
	if s.maker != nil {
		s.maker.close()
	}
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	}
	for _, ln := range []net.Listener{s.socket, s.http} {
		if ln != nil {
			ln.Close()
		}
	}
	if s.store != "" {
		removeStore(s.store)
	}
}
