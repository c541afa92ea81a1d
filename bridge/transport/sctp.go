package transport

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

// sctpProtocol makes sessions over SCTP (RFC 9260) inside DTLS 1.2 (RFC 6347,
// RFC 8261) over UDP.
type sctpProtocol struct {
	cfg    session.Settings // its handshakes are all from proved addresses
	socket *sctpSocket

	ctx  context.Context // ends the handshakes that are under way
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex
	links map[*sctpLink]struct{} // nil once closed
	cause error                  // why
}

// listenSCTP begins to accept and dial sessions over conn, which it owns from now on.
func listenSCTP(conn net.PacketConn, cfg session.Settings) *sctpProtocol {
	p := &sctpProtocol{
		cfg:    cfg,
		socket: newSCTPSocket(conn, resetter{cfg.ResetSecret}),
		links:  make(map[*sctpLink]struct{}),
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

// knockPeriod is how long a dialler waits for an answer before it repeats its knock or its
// hello.
const knockPeriod = 200 * time.Millisecond

// Dial returns after the welcome. Strangers give trust.ErrWrongKey, ourselves ErrSelf.
func (p *sctpProtocol) Dial(ctx context.Context, addr net.Addr) (*Session, error) {
	if addr == nil {
		return nil, errors.New("no address")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, session.HandshakeTimeout, ErrSilent)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	if ctx.Err() != nil {
		return nil, p.why(ctx)
	}
	var key pathKey
	rand.Read(key.attempt[:]) // never fails
	path := newSCTPPath(p.socket, key, shim{kind: kindToListener, attempt: key.attempt}, addr)
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

// why is the reason for which a handshake's context has ended.
func (p *sctpProtocol) why(ctx context.Context) error {
	if p.ctx.Err() != nil {
		return net.ErrClosed
	}
	return context.Cause(ctx)
}

func (p *sctpProtocol) dialOver(ctx context.Context, path *sctpPath, addr net.Addr) (*Session, error) {
	rtt, err := p.knock(ctx, path, addr)
	if err != nil {
		return nil, err
	}
	m := &sctpMeeting{p: p, member: p.cfg.Member(), path: path}
	conn, err := dtls.ClientWithOptions(path, addr, m.clientOptions()...)
	if err != nil {
		return nil, err
	}
	return m.meet(ctx, conn, askHello, rtt)
}

// knock gets a cookie from the listener, and returns the round trip.
func (p *sctpProtocol) knock(ctx context.Context, path *sctpPath, addr net.Addr) (time.Duration, error) {
	ticker := time.NewTicker(knockPeriod)
	defer ticker.Stop()
	for {
		sent := time.Now()
		p.socket.send(appendShim(nil, shim{kind: kindKnock, attempt: path.key.attempt}), addr)
		select {
		case path.shim.proof = <-path.cookies:
			return time.Since(sent), nil
		case <-ticker.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// admit is called by the socket's reader for every new path to us.
func (p *sctpProtocol) admit(path *sctpPath, from net.Addr) bool {
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

// serve is the acceptor's side of a handshake. It hands the session to Accept before the
// dialler knows of it, so that sessions arrive in the order in which they were dialled.
func (p *sctpProtocol) serve(ctx context.Context, path *sctpPath, from net.Addr, place session.Handshake) {
	m := &sctpMeeting{p: p, member: p.cfg.Member(), path: path, place: place}
	conn, err := dtls.ServerWithOptions(path, from, m.serverOptions()...)
	if err != nil {
		path.Close()
		return
	}
	s, err := m.meet(ctx, conn, hearFirstHello, 0)
	if err != nil {
		path.Close()
		m.report(ctx, from, err)
		return
	}
	p.cfg.Inbox.Arrived(s)
	conn.Write(m.ownHello(m.mtu)) // drops it if the session has been turned away
}

// enter adds l to the links, so that the end of the socket ends it. If the socket has ended
// already, it returns why.
func (p *sctpProtocol) enter(l *sctpLink) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.links == nil {
		return p.cause
	}
	p.links[l] = struct{}{}
	return nil
}

func (p *sctpProtocol) leave(l *sctpLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// shut ends every link and refuses new ones.
func (p *sctpProtocol) shut(cause error) {
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
// but those of sessions.
func (p *sctpProtocol) Close() {
	p.shut(net.ErrClosed)
	p.socket.close()
	p.wg.Wait()
}
