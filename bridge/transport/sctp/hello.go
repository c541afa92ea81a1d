package sctp

import (
	"encoding/binary"

	"achbridge/bridge/transport/session"
)

// hello is the first record that each peer sends after DTLS.
type hello struct {
	init  []byte // INIT chunk with its padding
	reset proof  // reset token, zero if there is none
	mtu   int    // packet size of the session: wideMTU or narrowMTU
}

const (
	// minInit is the size of an INIT chunk without parameters, in bytes.
	minInit = 20
	// maxInit is larger than the INIT chunk of any hello.
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

// parseHello parses a hello. The INIT chunk in the result is part of b.
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

// ownHello returns our hello for a session with packets of this size.
func (m *handshake) ownHello(mtu int) []byte {
	return appendHello(nil, hello{init: m.token, reset: m.p.socket.resets.token(m.path.id), mtu: mtu})
}
