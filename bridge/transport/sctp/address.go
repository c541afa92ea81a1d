package sctp

import (
	"crypto/rand"
	"encoding/binary"
	"net"
	"time"

	"achbridge/bridge/transport/session"
)

// peerAddress is where the peer of a session is, under the path's mu.
//
// An authentic record that is newer than all others may come from a new address: because the
// peer has moved, because a member lies about its address, or because an attacker's copy of
// the record arrived first. So we send to the old address until the new one has answered a
// heartbeat with a nonce (RFC 9260 section 5.4, as RFC 9146 section 6 requires).
type peerAddress struct {
	proved net.Addr
	aim    net.Addr // where the packet that is being written goes; nil: to proved

	asked net.Addr // the address that a heartbeat was sent to
	nonce [nonceSize]byte
	at    time.Time // when that heartbeat was sent
}

const (
	// askPeriod is the shortest time between two questions, however many addresses appear.
	askPeriod = 50 * time.Millisecond
	// nonceSize differs from that of pion/sctp's own heartbeats, so that the library does not
	// take an answer to ours for its own.
	nonceSize = 16

	heartbeatNonce = 8 // offset in the chunk
	paramHeartbeat = 1
)

// destination is the address for the packet that is being written.
func (p *path) destination() net.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.address.aim != nil {
		return p.address.aim
	}
	return p.address.proved
}

// peerAddr is where the peer proved to be.
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
	p.address.asked, p.address.nonce, p.address.at = at, nonce, now
	return nonce, true
}

// answered makes the address of a heartbeat the proved one, if chunk answers it from there.
func (p *path) answered(chunk []byte, at net.Addr) {
	if len(chunk) != heartbeatNonce+nonceSize {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.address.asked == nil || [nonceSize]byte(chunk[heartbeatNonce:]) != p.address.nonce || !session.SameAddr(at, p.address.asked) {
		return
	}
	p.address.proved, p.address.asked = at, nil
}

// follow sends a heartbeat to the address of the peer's newest record, if that is new. It is
// called when DTLS has checked all packets so far.
func (l *link) follow() {
	at := l.conn.RemoteAddr()
	if nonce, ok := l.path.ask(at); ok {
		l.write(l.heartbeat(nonce), at)
	}
}

// headerTo is the common header of packets to a peer with that INIT chunk: ports, tag
// and no checksum.
func headerTo(init []byte) [commonHeader]byte {
	header := [commonHeader]byte{firstByte, associationPort & 0xff, firstByte, associationPort & 0xff}
	copy(header[4:], init[4:8])
	return header
}

// heartbeat is a packet that asks the peer to repeat a nonce.
func (l *link) heartbeat(nonce [nonceSize]byte) []byte {
	packet := append(l.header[:], chunkHeartbeat, 0)
	packet = binary.BigEndian.AppendUint16(packet, heartbeatNonce+nonceSize)
	packet = binary.BigEndian.AppendUint16(packet, paramHeartbeat)
	packet = binary.BigEndian.AppendUint16(packet, 4+nonceSize)
	return append(packet, nonce[:]...)
}

// write sends an SCTP packet, to the peer's proved place unless told otherwise.
func (l *link) write(b []byte, to net.Addr) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if to != nil {
		l.path.aim(to)
		defer l.path.aim(nil)
	}
	return l.conn.Write(b)
}
