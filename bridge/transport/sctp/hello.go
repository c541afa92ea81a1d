package sctp

import (
	"encoding/binary"

	"achbridge/bridge/transport/session"
)

// hello is what the peers tell each other.
type hello struct {
	init  []byte // chunk, with its padding
	reset proof  // zero if there is none
	mtu   int    // how large packets are to be: wideMTU or narrowMTU
}

const (
	// minInit is the size of an INIT chunk without parameters, in bytes.
	minInit = 20
	// maxInit is more than that of any hello takes.
	maxInit = 512
)

// appendHello appends WelcomeByte, the INIT chunk and the token, padded to h.mtu unless
// that is narrowMTU.
func appendHello(dst []byte, h hello) []byte {
	dst = append(append(append(dst, session.WelcomeByte), h.init...), h.reset[:]...)
	if h.mtu == narrowMTU {
		return dst
	}
	return append(dst, make([]byte, max(0, h.mtu-len(dst)))...)
}

// parseHello returns what a hello says, of which the INIT chunk is part of b.
func parseHello(b []byte) (h hello, ok bool) {
	if len(b) < 1+4 || b[0] != session.WelcomeByte {
		return hello{}, false
	}
	n := int(binary.BigEndian.Uint16(b[1+2:]))
	if n < minInit || n > maxInit || n > len(b)-1 {
		return hello{}, false
	}
	h = hello{init: b[1 : 1+n], mtu: narrowMTU}
	copy(h.reset[:], b[1+n:])
	if len(b) >= wideMTU {
		h.mtu = wideMTU
	}
	return h, true
}

// ownHello is what we say to a peer whose packets are to be that large.
func (m *handshake) ownHello(mtu int) []byte {
	return appendHello(nil, hello{init: m.token, reset: m.p.socket.resets.token(m.path.id), mtu: mtu})
}
