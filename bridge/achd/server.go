package achd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"achbridge/bridge/rule"
	"achbridge/localach"
)

// Rules define which channels are served, and to which hosts. The zero value serves nothing.
type Rules struct {
	From     []netip.Prefix // networks whose hosts may connect
	Channels []string       // patterns of the channels that clients may read
	Accept   []string       // patterns of the channels that clients may write
}

// Empty reports whether the rules serve nothing.
func (r Rules) Empty() bool { return len(r.From) == 0 || len(r.Channels)+len(r.Accept) == 0 }

// letsIn reports whether a host may connect.
func (r Rules) letsIn(a netip.Addr) bool {
	return slices.ContainsFunc(r.From, func(p netip.Prefix) bool { return p.Contains(a) })
}

// NewData calls f when a channel has a new frame, until end is called. f does not block.
type NewData func(c *localach.Channel, f func(seq uint64)) (end func())

// Config holds the parameters of a Server.
type Config struct {
	Dir     localach.Dir
	NewData NewData
	// Command reports whether a channel carries commands. achd cannot carry their timestamp or authenticate their
	// sender. Command may block briefly.
	Command func(channel string) bool
	// Claim reserves a channel with that tag for one writer until release is called. It returns an error if the channel
	// may not be written. It may block briefly.
	Claim func(channel string, tag localach.Tag) (release func(), err error)
	// Source returns the address of the host that feeds a channel by achd's protocol, or the zero address. nil means
	// that no host ever does.
	Source func(channel string) netip.Addr
	Log    *slog.Logger
}

// Limits of the resources that clients use.
const (
	maxClients  = 512
	maxPerHost  = 128      // connections from one address
	maxMemory   = 64 << 20 // bytes of all frames that are being transferred
	maxTimeAsks = 5 * time.Second
)

// Server serves achd's clients. It is safe for concurrent use.
type Server struct {
	cfg     Config
	rules   atomic.Pointer[Rules]
	memory  atomic.Int64
	frames  atomic.Uint64
	refused atomic.Uint64

	mu               sync.Mutex
	clients          map[*client]struct{}
	perHost          map[netip.Addr]int
	lastRefusalLogAt time.Time // when a refusal was logged last
	untold           int       // refusals since then that were not logged
}

// New returns a server that serves nothing until SetRules is called.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, clients: map[*client]struct{}{}, perHost: map[netip.Addr]int{}}
	s.SetRules(Rules{})
	return s
}

// SetRules replaces the rules. For connected clients the new rules apply within a second.
func (s *Server) SetRules(r Rules) { s.rules.Store(&r) }

// acceptAgain is the pause after an error of Accept, for example if the process has no free file descriptors.
const acceptAgain = 100 * time.Millisecond

// Run serves the clients that connect to ln until ctx ends, and closes ln.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	for {
		conn, err := ln.Accept()
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if err == nil {
				conn.Close()
			}
			return group.Wait()
		case err != nil:
			s.logRefusal("", "", err)
			rest(ctx, acceptAgain)
			continue
		}
		c, err := s.admit(conn)
		if err != nil {
			conn.Close()
			s.logRefusal(conn.RemoteAddr().String(), "", err)
			continue
		}
		group.Go(func() error {
			defer s.leave(c)
			if err := c.serve(ctx); err != nil && ctx.Err() == nil {
				s.logRefusal(c.addr.String(), c.clientRequest.channel, err)
			}
			return nil
		})
	}
}

var (
	errUnknownAddr    = errors.New("no network of achd: from has this address")
	errTooManyClients = errors.New("too many clients")
)

// admit registers a client, unless its host may not connect or there are too many clients.
func (s *Server) admit(conn net.Conn) (*client, error) {
	addr := addrOf(conn.RemoteAddr())
	if !s.rules.Load().letsIn(addr.Addr()) {
		return nil, errUnknownAddr
	}
	c := &client{s: s, conn: conn, addr: addr}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.clients) >= maxClients || s.perHost[addr.Addr()] >= maxPerHost {
		return nil, errTooManyClients
	}
	s.clients[c] = struct{}{}
	s.perHost[addr.Addr()]++
	return c, nil
}

func (s *Server) leave(c *client) {
	c.conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c)
	if s.perHost[c.addr.Addr()]--; s.perHost[c.addr.Addr()] == 0 {
		delete(s.perHost, c.addr.Addr())
	}
}

// refusalLogEvery is the minimum interval between log lines about refused clients.
const refusalLogEvery = time.Minute

// logRefusal logs why a client was refused or disconnected. It logs the first one at once, then at most one a minute, with the
// number of those not logged.
func (s *Server) logRefusal(addr, channel string, err error) {
	s.refused.Add(1)
	now := time.Now()
	s.mu.Lock()
	if !s.lastRefusalLogAt.IsZero() && now.Sub(s.lastRefusalLogAt) < refusalLogEvery {
		s.untold++
		s.mu.Unlock()
		return
	}
	before := s.untold
	s.lastRefusalLogAt, s.untold = now, 0
	s.mu.Unlock()
	s.cfg.Log.Warn("achd client refused", "peer", addr, "channel", channel, "err", err, "count", before+1)
}

// take takes n bytes of memory for frames, or releases them if n is negative. It returns false if the limit is reached.
func (s *Server) take(n int) bool {
	if s.memory.Add(int64(n)) > maxMemory && n > 0 {
		s.memory.Add(int64(-n))
		return false
	}
	return true
}

func (s *Server) give(n int) { s.memory.Add(int64(-n)) }

// Client describes one connection for the status.
type Client struct {
	Addr      netip.AddrPort
	Channel   string // empty until the client has sent its request
	Transport string // tcp or udp
	Writes    bool   // the client sends the frames
	Frames    uint64
}

// Report describes what the server has done.
type Report struct {
	Clients []Client // clients that have sent a request, ordered by channel and address
	Waiting int      // connections without a request so far
	Frames  uint64   // number of transferred frames
	Refused uint64   // clients refused or disconnected
}

// Report returns the current clients and counts.
func (s *Server) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := Report{Clients: []Client{}, Frames: s.frames.Load(), Refused: s.refused.Load()}
	for c := range s.clients {
		if c.working {
			r.Clients = append(r.Clients, Client{c.addr, c.clientRequest.channel, c.clientRequest.transport(), c.clientRequest.put, c.sent.Load()})
		} else {
			r.Waiting++
		}
	}
	slices.SortFunc(r.Clients, func(a, b Client) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), a.Addr.Compare(b.Addr))
	})
	return r
}

// mayRead returns why a host may not read the channel by achd, or nil.
func (s *Server) mayRead(addr netip.Addr, channel string) error {
	r := s.rules.Load()
	switch {
	case !r.letsIn(addr):
		return errUnknownAddr
	case !rule.Matches(r.Channels, channel):
		return &refusal{noAccess, channel + " is not served to achd"}
	case s.cfg.Command(channel):
		return &refusal{noAccess, channel + " carries commands, which achd cannot carry"}
	case s.cfg.Source != nil && s.cfg.Source(channel) == addr:
		return &refusal{noAccess, channel + " came from your host by achd, and would circulate without end"}
	}
	return nil
}

// mayWrite returns why a host may not write the channel by achd, or nil.
func (s *Server) mayWrite(addr netip.Addr, channel string) error {
	r := s.rules.Load()
	switch {
	case !r.letsIn(addr):
		return errUnknownAddr
	case !rule.Matches(r.Accept, channel):
		return &refusal{noAccess, channel + " is not accepted from achd"}
	case s.cfg.Command(channel):
		return &refusal{noAccess, channel + " carries commands, which achd cannot carry"}
	}
	return nil
}

// Serves reports whether a host may read or write a channel that exists on this host.
func (s *Server) Serves(addr netip.Addr, channel string) bool {
	open := s.cfg.Dir.TryOpenToRead
	if s.mayRead(addr, channel) != nil {
		if s.mayWrite(addr, channel) != nil {
			return false
		}
		open = s.cfg.Dir.TryOpen
	}
	ch, err := open(channel)
	if err != nil {
		return false
	}
	ch.Close()
	return true
}

// choose registers that c reads or writes its channel. It returns false if c's host already uses the channel in the
// other direction, because frames would return to that host forever.
func (s *Server) choose(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range s.clients {
		if o.chosen && o.clientRequest.channel == c.clientRequest.channel && o.clientRequest.put != c.clientRequest.put && o.addr.Addr() == c.addr.Addr() {
			return false
		}
	}
	c.chosen = true
	return true
}

// addrOf returns the address of the peer. IPv4-mapped addresses are returned as IPv4.
func addrOf(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := t.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// rest waits for d. It returns false if ctx ends first.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
