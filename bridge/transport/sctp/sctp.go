package sctp

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"sync"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/via"

	"github.com/pion/dtls/v3"
)

// Protocol makes sessions over SCTP (RFC 9260) inside DTLS 1.2 (RFC 6347,
// RFC 8261) over UDP.
type Protocol struct {
	cfg    session.Settings // all handshakes in cfg.Handshakes have proved addresses
	socket *socket

	ctx  context.Context // cancels all unfinished handshakes when done
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex
	links map[*link]struct{} // nil once closed
	cause error              // why it was closed
}

// Listen starts accepting and dialling sessions over conn, which the Protocol owns.
func Listen(conn net.PacketConn, cfg session.Settings) *Protocol {
	p := &Protocol{
		cfg:    cfg,
		socket: newSocket(conn, statelessReset{cfg.ResetSecret}, cfg.Marking),
		links:  make(map[*link]struct{}),
	}
	receive, send := growBuffers(conn)
	cfg.Log.Debug("socket buffers", "transport", via.SCTP, "receive", receive, "send", send, "want", kernelBuffer)
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.socket.admit = p.admit
	p.socket.run(func(err error) {
		p.shut(err)
		p.cfg.Inbox.Failed(err)
	})
	return p
}

// repeatPeriod is the time after which a dialler without an answer repeats its initial packet or
// its hello.
const repeatPeriod = 200 * time.Millisecond

// Dial returns a session after the welcome. It returns trust.ErrWrongKey for peers of other
// networks, and session.ErrSelf for this node itself.
func (p *Protocol) Dial(ctx context.Context, addr net.Addr) (*session.Session, error) {
	if addr == nil {
		return nil, errors.New("no address")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, session.HandshakeTimeout, session.ErrSilent)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	if ctx.Err() != nil {
		return nil, p.why(ctx)
	}
	var key pathKey
	rand.Read(key.attempt[:]) // never fails
	path := newPath(p.socket, key, shim{kind: kindToListener, attempt: key.attempt}, addr)
	p.socket.remember(path)
	s, err := p.dialOver(ctx, path, addr)
	if err != nil {
		path.Close()
		if ctx.Err() != nil && !errors.Is(err, session.ErrSelf) {
			return nil, p.why(ctx)
		}
		return nil, err
	}
	return s, nil
}

// why returns the reason why a handshake's context has ended.
func (p *Protocol) why(ctx context.Context) error {
	if p.ctx.Err() != nil {
		return net.ErrClosed
	}
	return context.Cause(ctx)
}

func (p *Protocol) dialOver(ctx context.Context, path *path, addr net.Addr) (*session.Session, error) {
	rtt, err := p.requestCookie(ctx, path, addr)
	if err != nil {
		return nil, err
	}
	m := &handshake{p: p, member: p.cfg.Member(), path: path}
	conn, err := dtls.ClientWithOptions(path, addr, m.clientOptions()...)
	if err != nil {
		return nil, err
	}
	return m.meet(ctx, conn, askHello, rtt)
}

// requestCookie sends initial packets until the listener sends a cookie. It returns the round
// trip.
func (p *Protocol) requestCookie(ctx context.Context, path *path, addr net.Addr) (time.Duration, error) {
	ticker := time.NewTicker(repeatPeriod)
	defer ticker.Stop()
	for {
		sent := time.Now()
		p.socket.send(appendShim(nil, shim{kind: kindInitial, attempt: path.key.attempt}), addr)
		select {
		case path.shim.proof = <-path.cookies:
			return time.Since(sent), nil
		case <-ticker.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// admit starts the handshake of a new path that a peer has dialled. The socket's reader calls it.
func (p *Protocol) admit(path *path, from net.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(p.ctx, session.HandshakeTimeout)
	place := p.cfg.Handshakes.Enter(session.AddrOf(from), cancel)
	p.wg.Go(func() {
		defer cancel()
		defer place.Leave()
		p.serve(ctx, path, from, place)
	})
	return true
}

// serve runs the acceptor's side of a handshake. It passes the session to the Inbox before it
// answers the dialler, so that sessions arrive in the order in which they were dialled.
func (p *Protocol) serve(ctx context.Context, path *path, from net.Addr, place session.Handshake) {
	m := &handshake{p: p, member: p.cfg.Member(), path: path, place: place}
	conn, err := dtls.ServerWithOptions(path, from, m.serverOptions()...)
	if err != nil {
		path.Close()
		return
	}
	s, err := m.meet(ctx, conn, readFirstHello, 0)
	if err != nil {
		path.Close()
		m.report(ctx, from, err)
		return
	}
	p.cfg.Inbox.Arrived(s)
	conn.Write(m.ownHello(m.mtu)) // not sent if the session was refused
}

// enter adds l to the links, so that the end of the socket ends it. If the socket has already
// ended, it returns the cause.
func (p *Protocol) enter(l *link) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links == nil {
		return p.cause
	}
	p.links[l] = struct{}{}
	return nil
}

func (p *Protocol) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// shut ends every link and refuses new ones.
func (p *Protocol) shut(cause error) {
	p.mu.Lock()
	links := p.links
	if links != nil {
		p.links, p.cause = nil, cause
	}
	p.mu.Unlock()
	for l := range links {
		l.end(cause)
	}
	p.stop()
}

// Close closes the socket and ends the sessions without a goodbye. It waits for all goroutines
// except those of sessions.
func (p *Protocol) Close() {
	p.shut(net.ErrClosed)
	p.socket.close()
	p.wg.Wait()
}
