package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// dialLimit is the timeout of one attempt to connect.
	dialLimit = 10 * time.Second
	// keepAlive detects dead connections that no other mechanism checks.
	keepAlive = 15 * time.Second
)

// dialer opens one of the two connections to the hub. The client library calls Dial, which returns
// a connection over TLS. With the library's own TLS a hub could announce messages of any size.
type dialer struct {
	ctx    context.Context //nolint:containedctx // the library's Dial has none
	client *Client
	flow   *flow
	small  bool

	socket *socket
	err    error       // error of Dial, which the library rewords
	disarm func() bool // stops the closing of the socket at the end of ctx
}

// ownTLS is the interface by which the library recognizes a dialer that does TLS itself.
type ownTLS interface{ SkipTLSHandshake() bool }

var _ ownTLS = (*dialer)(nil)

// SkipTLSHandshake reports that Dial has done the handshake.
func (d *dialer) SkipTLSHandshake() bool { return true }

func (d *dialer) Dial(_, address string) (net.Conn, error) {
	c, err := d.dial(address)
	d.err = err
	return c, err
}

func (d *dialer) dial(address string) (net.Conn, error) {
	tcp, err := (&net.Dialer{KeepAlive: keepAlive}).DialContext(d.ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s, err := newSocket(tcp.(*net.TCPConn), d.flow, d.small)
	if err != nil {
		tcp.Close()
		return nil, err
	}
	d.socket = s
	d.disarm = context.AfterFunc(d.ctx, func() { s.Close() })
	first, err := greeting(s)
	if err == nil {
		secure := tls.Client(s, d.client.tls())
		if err = secure.HandshakeContext(d.ctx); err == nil {
			return &guard{Conn: secure, first: first, within: s.within}, nil
		}
	}
	s.Close()
	return nil, err
}

// greeting reads the INFO line that the hub sends before TLS begins.
func greeting(s *socket) ([]byte, error) {
	line, b := make([]byte, 0, 1024), make([]byte, 4096)
	for !bytes.HasSuffix(line, []byte("\n")) {
		n, err := s.Read(b)
		if err != nil {
			return nil, err
		}
		if line = append(line, b[:n]...); len(line) > maxLine {
			return nil, fmt.Errorf("its greeting is longer than %d bytes", maxLine)
		}
	}
	info, ok := bytes.CutPrefix(line, []byte("INFO "))
	var offer struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	if !ok || bytes.Count(line, []byte("\n")) != 1 || json.Unmarshal(info, &offer) != nil {
		return nil, errors.New("the program that answers there is not a nats-server")
	}
	if !offer.Required && !offer.Available {
		return nil, errors.New("it offers no TLS: give the nats-server a certificate")
	}
	return line, nil
}

// tls returns the TLS configuration. It trusts the certificate in the credentials, or without one
// the system's roots.
func (c *Client) tls() *tls.Config {
	at, _ := url.Parse(c.credentials.Hub)
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: at.Hostname(), RootCAs: c.roots}
	if c.credentials.Certificate == nil {
		return config
	}
	config.InsecureSkipVerify = true // VerifyConnection verifies the certificate instead
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 || !c.pinned(state.PeerCertificates[0]) {
			return ErrCertificate
		}
		return nil
	}
	return config
}

func (c *Client) pinned(certificate *x509.Certificate) bool {
	sum := sha256.Sum256(certificate.Raw)
	return bytes.Equal(sum[:], c.credentials.Certificate)
}

// dialConn opens one connection and authenticates.
func (c *Client) dialConn(ctx context.Context, f *flow, small bool) (*hubConn, error) {
	d := &dialer{ctx: ctx, client: c, flow: f, small: small}
	h := &hubConn{client: c, small: small, done: make(chan struct{}), turn: make(chan struct{}, 1), waiting: map[string]func(*nats.Msg){}, errorReported: make(chan struct{})}
	defer func() {
		if d.disarm != nil {
			d.disarm()
		}
	}()
	nc, err := nats.Connect("nats://"+strings.TrimPrefix(c.credentials.Hub, "tls://"), c.options(d, h)...)
	if err != nil {
		if d.socket != nil {
			d.socket.Close()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if d.err != nil {
			err = d.err
		}
		return nil, err
	}
	h.mu.Lock()
	h.nc, h.socket = nc, d.socket
	h.mu.Unlock()
	return h, nil
}

func (c *Client) options(d *dialer, h *hubConn) []nats.Option {
	return []nats.Option{
		nats.Name("achbridge " + c.credentials.Host),
		nats.SetCustomDialer(d),
		nats.SkipHostLookup(),
		nats.IgnoreDiscoveredServers(), // the hub does not decide which other addresses this host dials
		nats.NoReconnect(),             // the library would buffer published messages until it has reconnected
		nats.ReconnectBufSize(-1),
		nats.Timeout(dialLimit),
		nats.PingInterval(time.Hour), // hubConn.ping sends the pings instead
		nats.FlusherTimeout(0),
		nats.CustomInboxPrefix(InboxPrefix(c.credentials.Host)),
		nats.Nkey(c.public, c.credentials.Sign),
		nats.NoEcho(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { h.reportError(err) }),
		nats.ClosedHandler(func(nc *nats.Conn) { h.end(nc.LastError()) }),
	}
}
