package hosts

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// UDP has the fields of a UDP packet that tests look at.
type UDP struct {
	Port  uint16 // destination
	Class byte   // traffic class: DSCP and ECN (RFC 2474, RFC 3168)
}

// DSCP returns the differentiated services code point.
func (p UDP) DSCP() byte { return p.Class >> 2 }

// ECN returns the bits of explicit congestion notification.
func (p UDP) ECN() byte { return p.Class & 3 }

// ParseUDP parses an Ethernet frame. ok is false if it has no UDP packet.
func ParseUDP(frame []byte) (p UDP, ok bool) {
	const ethernet = 14
	ip := frame[ethernet:]
	switch {
	case ip[0]>>4 == 4 && ip[9] == unix.IPPROTO_UDP:
		return UDP{binary.BigEndian.Uint16(ip[int(ip[0]&15)*4+2:]), ip[1]}, true
	case ip[0]>>4 == 6 && ip[6] == unix.IPPROTO_UDP:
		return UDP{binary.BigEndian.Uint16(ip[40+2:]), ip[0]<<4 | ip[1]>>4}, true
	}
	return UDP{}, false
}
