package hub

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"achbridge/bridge/logline"
)

// Config has the settings of a Client.
type Config struct {
	Credentials Credentials
	// Hub is the address of the hub, as ParseAddress takes it. If empty, the address in the
	// credentials is used.
	Hub string
	Log *slog.Logger

	roots *x509.CertPool // nil means the system's roots
}

// Client connects this host to a hub while Run runs. All methods are safe for concurrent use.
type Client struct {
	credentials Credentials
	public      string
	roots       *x509.CertPool
	log         *slog.Logger
	incarnation [8]byte

	presence presence
	sessions sessions

	mu           sync.Mutex
	pair         *connPair     // nil means not connected
	changed      chan struct{} // closed when pair changes
	since        time.Time     // when pair was last set or cleared
	problem      error         // why there is no connection, or why no replacement could be connected
	problemLimit logline.Limit // limits the log messages about trouble
	began        time.Time     // when the client was made
	silent       time.Duration
}

// New checks the configuration. It does not connect; Run does.
func New(c Config) (*Client, error) {
	if c.Hub != "" {
		address, err := ParseAddress(c.Hub)
		if err != nil {
			return nil, fmt.Errorf("hub: %w", err)
		}
		c.Credentials.Hub = address
	}
	if c.Credentials.seed == nil || c.Credentials.Hub == "" {
		return nil, errors.New("hub: want credentials, as ReadCredentials reads them")
	}
	public, err := c.Credentials.PublicKey()
	if err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	client := &Client{credentials: c.Credentials, public: public, roots: c.roots, log: c.Log, changed: make(chan struct{}), since: time.Now(),
		problemLimit: logline.Limit{Burst: 5, Period: 10 * time.Second}, began: time.Now()}
	_, _ = rand.Read(client.incarnation[:])
	client.presence.init(client)
	client.sessions.init(client)
	return client, nil
}

// State describes the connection to the hub.
type State struct {
	Connected bool
	Since     time.Time // when the connection began or ended
	Address   string    // tls://HOST:PORT
	// Err is the reason why there is no connection. It wraps ErrRefused, ErrCertificate or another
	// cause.
	Err error
	// Silent is how long a sign of life from the hub has been overdue.
	Silent time.Duration
	// Unacked is the number of sent bytes that the hub has not acknowledged.
	Unacked int
	// RoundTrip is the shortest measured round trip; 0 means none yet.
	RoundTrip time.Duration
	// MaxPayload is the size of the largest message that the hub accepts, in bytes; 0 means
	// unknown.
	MaxPayload int
}

// State returns the present state. It never blocks.
func (c *Client) State() State {
	c.mu.Lock()
	s := State{Connected: c.pair != nil, Since: c.since, Address: c.credentials.Hub, Err: c.problem, Silent: c.silent}
	l := c.pair
	c.mu.Unlock()
	if l != nil {
		s.Unacked, s.RoundTrip, s.MaxPayload = l.flow.unacked(), l.flow.least(), l.maxPayload()
	}
	return s
}

// current returns the connection to the hub, or nil, and a channel that is closed when the
// connection changes.
func (c *Client) current() (*connPair, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair, c.changed
}

// connected returns the connection to the hub. It fails at once without a connection, or if the
// connection has been silent for too long.
func (c *Client) connected() (*connPair, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.pair == nil:
		return nil, errNotConnected(c.problem)
	case c.silent >= c.pair.patience():
		return nil, errNotConnected(fmt.Errorf("nothing heard for %v", c.silent.Round(100*time.Millisecond)))
	}
	return c.pair, nil
}

// become makes l the connection. If l is nil there is none, for the given reason.
func (c *Client) become(l *connPair, reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pair, c.since, c.problem, c.silent = l, time.Now(), reason, 0
	close(c.changed)
	c.changed = make(chan struct{})
}

// noteProblem records why the hub cannot be reached. It logs the reason if it differs from the
// last one.
func (c *Client) noteProblem(err error) {
	c.mu.Lock()
	news := err != nil && (c.problem == nil || c.problem.Error() != err.Error())
	c.problem = err
	due := false
	if news {
		_, due = c.problemLimit.Cause(time.Since(c.began))
	}
	c.mu.Unlock()
	if due {
		c.log.Warn("cannot connect to the hub, trying again", "hub", c.credentials.Hub, "err", err)
	}
}

// isSilent reports whether l has been silent for too long, and records for how long.
func (c *Client) isSilent(l *connPair) bool {
	silent := l.silent()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = silent
	return silent >= l.patience()
}
