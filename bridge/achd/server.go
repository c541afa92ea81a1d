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

// Rules say what is served, and to whom. The zero value serves nothing.
type Rules struct {
	From     []netip.Prefix // networks whose hosts are let in
	Channels []string       // patterns of the channels that they may read
	Accept   []string       // patterns of the channels that they may write
}

// Empty reports whether nothing is served.
func (r Rules) Empty() bool { return len(r.From) == 0 || len(r.Channels)+len(r.Accept) == 0 }

// letsIn reports whether a host may connect at all.
func (r Rules) letsIn(a netip.Addr) bool {
	return slices.ContainsFunc(r.From, func(p netip.Prefix) bool { return p.Contains(a) })
}

// NewData calls f, which does not block, when a channel has a new frame, until end is called.
type NewData func(c *localach.Channel, f func(seq uint64)) (end func())

// Config is what a Server needs.
type Config struct {
	Dir     localach.Dir
	NewData NewData
	// Command reports whether a channel carries commands, which achd can neither date nor
	// tell who sent them. It may take a moment.
	Command func(channel string) bool
	// Claim takes a channel with that tag for one writer until release is called, or says why it
	// may not be written. It may take a moment.
	Claim func(channel string, tag localach.Tag) (release func(), err error)
	// Source returns the address of the host that feeds a channel by achd's protocol, zero for none; nil: none ever does.
	Source func(channel string) netip.Addr
	Log    *slog.Logger
}

// Bounds on what clients may take.
const (
	maxClients  = 512
	maxPerHost  = 128      // of them, of one address
	maxMemory   = 64 << 20 // bytes of all frames that are being sent
	maxTimeAsks = 5 * time.Second
)

// Server serves achd's clients. Safe for concurrent use.
type Server struct {
	cfg     Config
	rules   atomic.Pointer[Rules]
	memory  atomic.Int64
	frames  atomic.Uint64
	refused atomic.Uint64

	mu      sync.Mutex
	clients map[*client]struct{}
	perHost map[netip.Addr]int
	told    time.Time // when a refusal was logged last
	untold  int       // refusals since
}

// New makes a server that serves nothing until SetRules is called.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, clients: map[*client]struct{}{}, perHost: map[netip.Addr]int{}}
	s.SetRules(Rules{})
	return s
}

// SetRules has the server follow other rules, within a second also for those who are
// connected.
func (s *Server) SetRules(r Rules) { s.rules.Store(&r) }

// acceptAgain is how long the server waits after an error of accept: the system has no more
// descriptors, for example.
const acceptAgain = 100 * time.Millisecond

// Run serves the clients that come to ln until ctx ends, and closes ln.
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
			s.tell("", "", err)
			rest(ctx, acceptAgain)
			continue
		}
		c, err := s.admit(conn)
		if err != nil {
			conn.Close()
			s.tell(conn.RemoteAddr().String(), "", err)
			continue
		}
		group.Go(func() error {
			defer s.leave(c)
			if err := c.serve(ctx); err != nil && ctx.Err() == nil {
				s.tell(c.addr.String(), c.asked.channel, err)
			}
			return nil
		})
	}
}

var (
	errStranger = errors.New("no network of achd: from has this address")
	errCrowd    = errors.New("too many clients")
)

// admit counts a client in, unless it may not come or there are too many.
func (s *Server) admit(conn net.Conn) (*client, error) {
	addr := addrOf(conn.RemoteAddr())
	if !s.rules.Load().letsIn(addr.Addr()) {
		return nil, errStranger
	}
	c := &client{s: s, conn: conn, addr: addr}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.clients) >= maxClients || s.perHost[addr.Addr()] >= maxPerHost {
		return nil, errCrowd
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

// tellEvery is how often a client that is turned away is logged.
const tellEvery = time.Minute

// tell logs why a client was turned away or dropped: the first, and then one a minute with the
// number of those in between.
func (s *Server) tell(addr, channel string, err error) {
	s.refused.Add(1)
	now := time.Now()
	s.mu.Lock()
	if !s.told.IsZero() && now.Sub(s.told) < tellEvery {
		s.untold++
		s.mu.Unlock()
		return
	}
	before := s.untold
	s.told, s.untold = now, 0
	s.mu.Unlock()
	s.cfg.Log.Warn("achd client turned away", "peer", addr, "channel", channel, "err", err, "count", before+1)
}

// take counts n bytes of memory for frames, fewer if negative; false: there are no more.
func (s *Server) take(n int) bool {
	if s.memory.Add(int64(n)) > maxMemory && n > 0 {
		s.memory.Add(int64(-n))
		return false
	}
	return true
}

func (s *Server) give(n int) { s.memory.Add(int64(-n)) }

// Client is one connection, as status shows it.
type Client struct {
	Addr      netip.AddrPort
	Channel   string // empty: it has not asked yet
	Transport string // tcp or udp
	Writes    bool   // the client sends the frames
	Frames    uint64
}

// Report is what the server has done.
type Report struct {
	Clients []Client // that have asked for something, in order of channel and address
	Waiting int      // connections without a request yet
	Frames  uint64   // sent
	Refused uint64   // clients turned away or dropped
}

// Report says what the server does.
func (s *Server) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := Report{Clients: []Client{}, Frames: s.frames.Load(), Refused: s.refused.Load()}
	for c := range s.clients {
		if c.working {
			r.Clients = append(r.Clients, Client{c.addr, c.asked.channel, c.asked.transport(), c.asked.put, c.sent.Load()})
		} else {
			r.Waiting++
		}
	}
	slices.SortFunc(r.Clients, func(a, b Client) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), a.Addr.Compare(b.Addr))
	})
	return r
}

// mayRead returns why nobody may read the channel by achd, or nil.
func (s *Server) mayRead(addr netip.Addr, channel string) error {
	r := s.rules.Load()
	switch {
	case !r.letsIn(addr):
		return errStranger
	case !rule.Matches(r.Channels, channel):
		return &refusal{noAccess, channel + " is not served to achd"}
	case s.cfg.Command(channel):
		return &refusal{noAccess, channel + " carries commands, which achd cannot carry"}
	case s.cfg.Source != nil && s.cfg.Source(channel) == addr:
		return &refusal{noAccess, channel + " comes from your host by achd, and would go round for ever"}
	}
	return nil
}

// mayWrite is mayRead for those who write.
func (s *Server) mayWrite(addr netip.Addr, channel string) error {
	r := s.rules.Load()
	switch {
	case !r.letsIn(addr):
		return errStranger
	case !rule.Matches(r.Accept, channel):
		return &refusal{noAccess, channel + " is not accepted from achd"}
	case s.cfg.Command(channel):
		return &refusal{noAccess, channel + " carries commands, which achd cannot carry"}
	}
	return nil
}

// Serves reports whether a host may read or write a channel of this host, which is there.
func (s *Server) Serves(addr netip.Addr, channel string) bool {
	if s.mayRead(addr, channel) != nil && s.mayWrite(addr, channel) != nil {
		return false
	}
	ch, err := s.cfg.Dir.TryOpen(channel)
	if err != nil {
		return false
	}
	ch.Close()
	return true
}

// choose has c read or write its channel; false: its host does the other already, and its own
// frames would come back to it for ever.
func (s *Server) choose(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range s.clients {
		if o.chosen && o.asked.channel == c.asked.channel && o.asked.put != c.asked.put && o.addr.Addr() == c.addr.Addr() {
			return false
		}
	}
	c.chosen = true
	return true
}

// addrOf is the address of a connection's other end, an IPv4 one always as such.
func addrOf(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := t.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// rest waits for d; false: ctx has ended.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
