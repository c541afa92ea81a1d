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

// Config is what a Client needs.
type Config struct {
	Credentials Credentials
	// Hub is where the hub is, as ParseAddress takes it. Without, the credentials say it.
	Hub string
	Log *slog.Logger

	roots *x509.CertPool // without: the system's
}

// Client is this host at a hub. It works while Run does. All methods may be called by
// several goroutines at once.
type Client struct {
	credentials Credentials
	public      string
	roots       *x509.CertPool
	log         *slog.Logger
	life        [8]byte

	presence presence
	sessions sessions

	mu      sync.Mutex
	line    *line         // nil: not connected
	changed chan struct{} // closed when line is another one
	since   time.Time     // when line came or went
	trouble error         // why there is none, or why a new one is not got
	told    logline.Limit // of the log about it
	began   time.Time     // of this client
	silent  time.Duration
}

// New checks the configuration. It does not connect: Run does.
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
		told: logline.Limit{Burst: 5, Period: 10 * time.Second}, began: time.Now()}
	_, _ = rand.Read(client.life[:])
	client.presence.init(client)
	client.sessions.init(client)
	return client, nil
}

// State is how it stands with the hub.
type State struct {
	Connected bool
	Since     time.Time // when it was connected, or was not any more
	Address   string    // tls://HOST:PORT
	// Err is why there is no connection: it wraps ErrRefused, ErrCertificate or another cause.
	Err error
	// Silent is for how long the hub has owed a sign of life.
	Silent time.Duration
	// Unacked is how many bytes were sent that the hub has not acknowledged.
	Unacked int
	// RoundTrip is the shortest one that was seen; 0: none yet.
	RoundTrip time.Duration
	// MaxPayload is the size of the largest message that the hub takes, in bytes; 0: not known.
	MaxPayload int
}

// State never blocks.
func (c *Client) State() State {
	c.mu.Lock()
	s := State{Connected: c.line != nil, Since: c.since, Address: c.credentials.Hub, Err: c.trouble, Silent: c.silent}
	l := c.line
	c.mu.Unlock()
	if l != nil {
		s.Unacked, s.RoundTrip, s.MaxPayload = l.flow.unacked(), l.flow.least(), l.maxPayload()
	}
	return s
}

// current is the connection to the hub, or nil, and a channel that is closed when it is another one.
func (c *Client) current() (*line, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line, c.changed
}

// connected is the connection to the hub. Without one, or when nothing is heard of it, it
// fails at once.
func (c *Client) connected() (*line, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.line == nil:
		return nil, errNotConnected(c.trouble)
	case c.silent >= c.line.patience():
		return nil, errNotConnected(fmt.Errorf("nothing heard for %v", c.silent.Round(100*time.Millisecond)))
	}
	return c.line, nil
}

// become makes l the connection; nil: there is none, for this reason.
func (c *Client) become(l *line, reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line, c.since, c.trouble, c.silent = l, time.Now(), reason, 0
	close(c.changed)
	c.changed = make(chan struct{})
}

// noteTrouble takes why the hub is not reached, and has it logged when it is another reason
// than before.
func (c *Client) noteTrouble(err error) {
	c.mu.Lock()
	news := err != nil && (c.trouble == nil || c.trouble.Error() != err.Error())
	c.trouble = err
	due := false
	if news {
		_, due = c.told.Cause(time.Since(c.began))
	}
	c.mu.Unlock()
	if due {
		c.log.Warn("hub is not reached, trying again", "hub", c.credentials.Hub, "err", err)
	}
}

func (c *Client) noteSilence(silent time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = silent
}
