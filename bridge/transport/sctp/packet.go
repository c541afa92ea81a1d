package sctp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"net"
	"time"
)

// After the handshake the packets of a session are plain DTLS: records with a connection id
// (RFC 9146), by which each end finds the session regardless of the packet's address. Packets
// of the handshake begin with a shim. It has the same purpose as a DTLS HelloVerifyRequest, but
// needs no state: a listener stores nothing about an address that is not proved.
//
//	byte 0      shimMagic, which is no DTLS content type
//	byte 1      kind
//	bytes 2-9   attempt: chosen by the dialler, distinguishes its attempts
//	bytes 10-25 proof: the listener's cookie for address and attempt (initial and
//	            toDialler leave it zero), or the token of a reset
//	bytes 26-   DTLS records, with toListener and toDialler only
//
// No answer is longer than its request.
const (
	shimMagic = 0xac
	shimSize  = 2 + attemptSize + proofSize

	attemptSize = 8
	proofSize   = 16

	kindInitial    = 1 // from the dialler: requests a cookie
	kindCookie     = 2 // from the listener: contains the cookie
	kindToListener = 3 // from the dialler: handshake, with the cookie
	kindToDialler  = 4 // from the listener: handshake
	kindReset      = 5 // from either: the sender has no session with this connection id

	// recordCID is the DTLS content type of a record with a connection id, which
	// follows type, version, epoch and sequence number.
	recordCID   = 25
	recordAlert = 21
	cidOffset   = 11
	cidSize     = 8
	// minResettable is the size of the smallest packet that is answered by a reset.
	minResettable = 40
)

type (
	attemptID [attemptSize]byte
	proof     [proofSize]byte
	cid       [cidSize]byte
)

// shim is the header before the records of a handshake.
type shim struct {
	kind    byte
	attempt attemptID
	proof   proof
}

func appendShim(dst []byte, s shim) []byte {
	dst = append(dst, shimMagic, s.kind)
	dst = append(dst, s.attempt[:]...)
	return append(dst, s.proof[:]...)
}

// parseShim returns the shim of a packet and the records after it, which are part of b.
func parseShim(b []byte) (s shim, records []byte, ok bool) {
	if len(b) < shimSize || b[0] != shimMagic || b[1] < kindInitial || b[1] > kindReset {
		return shim{}, nil, false
	}
	s.kind = b[1]
	copy(s.attempt[:], b[2:])
	copy(s.proof[:], b[2+attemptSize:])
	return s, b[shimSize:], true
}

// parseCID returns the connection id of a packet's first record.
func parseCID(b []byte) (id cid, ok bool) {
	if len(b) < cidOffset+cidSize || b[0] != recordCID {
		return cid{}, false
	}
	copy(id[:], b[cidOffset:])
	return id, true
}

// findCID returns the first connection id in a packet of ours.
func findCID(b []byte) (id cid, ok bool) {
	for len(b) > cidOffset+2 && b[0] != recordCID {
		b = b[min(len(b), cidOffset+2+int(binary.BigEndian.Uint16(b[cidOffset:]))):]
	}
	return parseCID(b)
}

// sealed reports whether a packet has only encrypted records with a connection id. Once there
// are keys, a peer sends no others, but pion/dtls would accept them.
func sealed(b []byte) bool {
	const header = cidOffset + cidSize + 2
	for len(b) > 0 {
		if len(b) < header || b[0] != recordCID || b[3] == 0 && b[4] == 0 {
			return false
		}
		b = b[min(len(b), header+int(binary.BigEndian.Uint16(b[header-2:]))):]
	}
	return true
}

func randomCID() (id cid) {
	rand.Read(id[:]) // never fails
	return id
}

// cookieLife is the minimum validity of a cookie. It may be valid for twice that time.
const cookieLife = 10 * time.Second

// cookieJar makes and checks cookies without storing them.
type cookieJar struct{ secret []byte }

func newCookieJar() cookieJar {
	j := cookieJar{make([]byte, sha256.Size)}
	rand.Read(j.secret) // never fails
	return j
}

// cookie returns a cookie. A peer that returns it proves that it receives packets at addr.
func (j cookieJar) cookie(addr net.Addr, attempt attemptID, now time.Time) proof {
	return j.at(addr, attempt, now.UnixNano()/int64(cookieLife))
}

func (j cookieJar) valid(p proof, addr net.Addr, attempt attemptID, now time.Time) bool {
	slot := now.UnixNano() / int64(cookieLife)
	this, last := j.at(addr, attempt, slot), j.at(addr, attempt, slot-1)
	return hmac.Equal(p[:], this[:]) || hmac.Equal(p[:], last[:])
}

func (j cookieJar) at(addr net.Addr, attempt attemptID, slot int64) (p proof) {
	m := hmac.New(sha256.New, j.secret)
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(slot)))
	m.Write(attempt[:])
	m.Write([]byte(addr.String()))
	copy(p[:], m.Sum(nil))
	return p
}

// statelessReset makes the tokens with which a node proves to a peer that it has lost a session.
// It needs no state: the tokens are the same in every run of a node. Each peer gets the token
// of its session in the hello; no other host gets it.
type statelessReset struct{ secret []byte }

func (r statelessReset) token(id cid) (p proof) {
	m := hmac.New(sha256.New, r.secret)
	m.Write(id[:])
	copy(p[:], m.Sum(nil))
	return p
}
