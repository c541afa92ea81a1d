package sctp

import (
	"crypto/rand"
	"encoding/binary"
	"net"
	"time"

	"achbridge/bridge/transport/session"
)

// peerAddress has the address of the peer of a session. The path's mu guards it.
//
// An authentic record that is newer than all others may come from a new address: because the
// peer has moved, because a member lies about its address, or because an attacker's copy of
// the record arrived first. So we send to the old address until the new one has answered a
// heartbeat with a nonce (RFC 9260 section 5.4, as RFC 9146 section 6 requires).
type peerAddress struct {
	proved net.Addr
	aim    net.Addr // destination of the packet that is being written; nil means proved

	probedAddr net.Addr // unproved address to which the last heartbeat was sent
	nonce      [nonceSize]byte
	at         time.Time // when that heartbeat was sent
}

const (
	// askPeriod is the minimum time between two such heartbeats, even if many addresses appear.
	askPeriod = 50 * time.Millisecond
	// nonceSize differs from that of pion/sctp's own heartbeats, so that the library ignores
	// answers to ours.
	nonceSize = 16

	heartbeatNonce = 8 // offset in the chunk
	paramHeartbeat = 1
)

// destination returns the address for the packet that is being written.
func (p *path) destination() net.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.address.aim != nil {
		return p.address.aim
	}
	return p.address.proved
}

// peerAddr returns the proved address of the peer.
func (p *path) peerAddr() net.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address.proved
}

// aim directs the packets written from now on to an address, or with nil to the
// proved one.
func (p *path) aim(to net.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.address.aim = to
}

// ask returns a nonce for a heartbeat to a new address. ok is false if the address is the
// proved one, or if a heartbeat was sent just now.
func (p *path) ask(at net.Addr) (nonce [nonceSize]byte, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if session.SameAddr(at, p.address.proved) {
		return nonce, false
	}
	now := time.Now()
	if now.Sub(p.address.at) < askPeriod {
		return nonce, false
	}
	rand.Read(nonce[:]) // never fails
	p.address.probedAddr, p.address.nonce, p.address.at = at, nonce, now
	return nonce, true
}

// answered makes the address of the last heartbeat the proved one, if chunk answers it from
// that address.
func (p *path) answered(chunk []byte, at net.Addr) {
	if len(chunk) != heartbeatNonce+nonceSize {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.address.probedAddr == nil || [nonceSize]byte(chunk[heartbeatNonce:]) != p.address.nonce || !session.SameAddr(at, p.address.probedAddr) {
		return
	}
	p.address.proved, p.address.probedAddr = at, nil
}

// follow sends a heartbeat to the address of the peer's newest record, if that address is new. It
// must be called when DTLS has authenticated all packets so far.
func (l *link) follow() {
	at := l.conn.RemoteAddr()
	if nonce, ok := l.path.ask(at); ok {
		l.write(l.heartbeat(nonce), at)
	}
}

// headerTo returns the common header of packets to a peer with this INIT chunk: ports, tag
// and no checksum.
func headerTo(init []byte) [commonHeader]byte {
	header := [commonHeader]byte{firstByte, associationPort & 0xff, firstByte, associationPort & 0xff}
	copy(header[4:], init[4:8])
	return header
}

// heartbeat returns a packet that requests the peer to return a nonce.
func (l *link) heartbeat(nonce [nonceSize]byte) []byte {
	packet := append(l.header[:], chunkHeartbeat, 0)
	packet = binary.BigEndian.AppendUint16(packet, heartbeatNonce+nonceSize)
	packet = binary.BigEndian.AppendUint16(packet, paramHeartbeat)
	packet = binary.BigEndian.AppendUint16(packet, 4+nonceSize)
	return append(packet, nonce[:]...)
}

// write sends an SCTP packet to the address to, or to the peer's proved address if to is nil.
func (l *link) write(b []byte, to net.Addr) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if to != nil {
		l.path.aim(to)
		defer l.path.aim(nil)
	}
	return l.conn.Write(b)
}
