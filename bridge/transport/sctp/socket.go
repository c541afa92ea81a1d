package sctp

import (
	"net"
	"sync"
	"time"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/via"
)

// socket shares a UDP socket among associations. Its reader passes each packet to its path and
// never waits for a path. Only its writer may block on the network card.
type socket struct {
	conn    net.PacketConn
	udp     *net.UDPConn // conn if it is a UDP socket, else nil
	marking *session.Marking
	oob     []byte // buffer for the control messages of a packet; only the writer uses it
	cookies cookieJar
	resets  statelessReset
	// admit starts a handshake on a new path from a dialler with a proved address. It returns
	// false if it does not.
	admit   func(*path, net.Addr) bool
	out     chan addressedPacket
	done    chan struct{} // closed to end the socket
	flushed chan struct{} // closed when the writer has ended

	mu        sync.Mutex
	byID      map[cid]*path
	byAttempt map[pathKey]*path
	byToken   map[proof]*link // the link that a reset with this token ends
	parted    []closedSession // oldest first
	wg        sync.WaitGroup
	once      sync.Once
}

const (
	// socketQueue is the maximum number of packets that wait for the network card.
	socketQueue = 512
	// largestPacket is larger than any of our packets.
	largestPacket = 2048
)

func newSocket(conn net.PacketConn, resets statelessReset, marking *session.Marking) *socket {
	udp, _ := conn.(*net.UDPConn)
	return &socket{
		conn: conn, udp: udp, marking: marking, cookies: newCookieJar(), resets: resets,
		out: make(chan addressedPacket, socketQueue), done: make(chan struct{}), flushed: make(chan struct{}),
		byID: make(map[cid]*path), byAttempt: make(map[pathKey]*path), byToken: make(map[proof]*link),
	}
}

// closedSession is a session that has ended here but may still exist at the peer. When packets for
// it arrive, the goodbye is sent again.
type closedSession struct {
	id         cid
	peer       net.Addr // last address of the peer
	goodbye    []byte   // nil if we did not end the session
	answeredAt time.Time
	until      time.Time
}

const (
	// closedSessionTimeout is longer than any peer continues to send without answers.
	closedSessionTimeout = 5 * time.Second
	maxPartings          = 1024
	// goodbyePeriod is the minimum time between two goodbyes of one session.
	goodbyePeriod = 20 * time.Millisecond
)

// run moves packets until the socket is closed or fails. It calls broke with the error.
func (s *socket) run(broke func(error)) {
	s.wg.Go(s.write)
	s.wg.Go(func() { broke(s.read()) })
}

// flushTimeout is the time limit for sending the last packets.
const flushTimeout = 100 * time.Millisecond

func (s *socket) close() {
	s.once.Do(func() {
		close(s.done)
		session.Wait(s.flushed, flushTimeout)
		s.conn.Close() // unblocks the writer
	})
	s.wg.Wait()
}

func (s *socket) read() error {
	b := make([]byte, largestPacket)
	for {
		n, from, err := s.conn.ReadFrom(b)
		if err != nil {
			return err
		}
		s.sort(b[:n], from)
	}
}

// write sends the queued packets, also those queued at the end. A packet that cannot be sent is
// lost.
func (s *socket) write() {
	defer close(s.flushed)
	for {
		select {
		case p := <-s.out:
			s.transmit(p)
			continue
		default:
		}
		select {
		case p := <-s.out:
			s.transmit(p)
		case <-s.done:
			return
		}
	}
}

// canMark reports whether packets can have a DSCP.
func (s *socket) canMark() bool { return s.udp != nil && s.marking.Err() == nil }

// transmit sends a packet, with its mark if the kernel permits. Only the writer calls it.
func (s *socket) transmit(p addressedPacket) {
	to, isUDP := p.addr.(*net.UDPAddr)
	if p.dscp == via.CS0 || !isUDP || !s.canMark() {
		s.conn.WriteTo(p.b, p.addr)
		return
	}
	s.oob = session.AppendMark(s.oob[:0], nil, session.AddrOf(to), p.dscp)
	_, _, err := s.udp.WriteMsgUDP(p.b, s.oob, to)
	_ = s.marking.Retry(err, func() error {
		_, err := s.conn.WriteTo(p.b, p.addr)
		return err
	})
}

// send queues a packet without a mark, which then belongs to the socket.
func (s *socket) send(b []byte, to net.Addr) { s.queue(addressedPacket{b: b, addr: to}) }

// queue queues a packet, which then belongs to the socket.
func (s *socket) queue(p addressedPacket) {
	select {
	case s.out <- p:
	default:
	}
}

// sort passes a packet to its path or link. Any host on the network may have sent it.
func (s *socket) sort(b []byte, from net.Addr) {
	if id, ok := parseCID(b); ok {
		s.mu.Lock()
		path := s.byID[id]
		parted := path == nil && s.answerClosed(id, time.Now())
		s.mu.Unlock()
		switch {
		case path != nil:
			path.deliver(b, from)
		case parted:
		case len(b) >= minResettable:
			s.send(appendShim(nil, shim{kind: kindReset, proof: s.resets.token(id)}), from)
		}
		return
	}
	sh, records, ok := parseShim(b)
	if !ok {
		return
	}
	switch sh.kind {
	case kindInitial:
		s.send(appendShim(nil, shim{kindCookie, sh.attempt, s.cookies.cookie(from, sh.attempt, time.Now())}), from)
	case kindCookie:
		if path := s.attempt(pathKey{attempt: sh.attempt}); path != nil {
			select {
			case path.cookies <- sh.proof:
			default:
			}
		}
	case kindToListener:
		s.toListener(sh, records, from)
	case kindToDialler:
		if path := s.attempt(pathKey{attempt: sh.attempt}); path != nil {
			path.deliver(records, from)
		}
	case kindReset:
		s.mu.Lock()
		link := s.byToken[sh.proof]
		s.mu.Unlock()
		if link != nil {
			link.end(session.ErrRestarted)
		}
	}
}

// toListener handles a handshake packet for the listener. Only here a packet can create a path.
func (s *socket) toListener(sh shim, records []byte, from net.Addr) {
	key := pathKey{from.String(), sh.attempt}
	path := s.attempt(key)
	if path == nil {
		if !s.cookies.valid(sh.proof, from, sh.attempt, time.Now()) {
			return
		}
		path = newPath(s, key, shim{kind: kindToDialler, attempt: sh.attempt}, from)
		s.remember(path)
		if !s.admit(path, from) {
			path.Close()
			return
		}
	}
	path.deliver(records, from)
}

func (s *socket) attempt(key pathKey) *path {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byAttempt[key]
}

func (s *socket) remember(p *path) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byAttempt[p.key] = p
	s.byID[p.id] = p
}

func (s *socket) forget(p *path) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byAttempt, p.key)
	delete(s.byID, p.id)
	if p.isKnown.Load() {
		now := time.Now()
		s.answerClosed(cid{}, now)
		last := closedSession{id: p.id, peer: p.peerAddr(), goodbye: p.lastWord(), answeredAt: now, until: now.Add(closedSessionTimeout)}
		s.parted = append(s.parted[max(0, len(s.parted)+1-maxPartings):], last)
	}
}

// answerClosed reports whether the session of a connection id has ended here. If so, it sends the
// goodbye again, to the peer's last address, not to the packet's source. It also removes old
// partings. mu must be held.
func (s *socket) answerClosed(id cid, now time.Time) bool {
	for len(s.parted) > 0 && now.After(s.parted[0].until) {
		s.parted = s.parted[1:]
	}
	for i := range s.parted {
		last := &s.parted[i]
		if last.id != id {
			continue
		}
		if last.goodbye != nil && now.Sub(last.answeredAt) >= goodbyePeriod {
			last.answeredAt = now
			s.send(last.goodbye, last.peer)
		}
		return true
	}
	return false
}

// expect records that a reset with token ends l. A zero token means that the peer has sent none
// and cannot reset the session.
func (s *socket) expect(token proof, l *link) {
	if token == (proof{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byToken[token] = l
}

func (s *socket) unexpect(token proof) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byToken, token)
}
