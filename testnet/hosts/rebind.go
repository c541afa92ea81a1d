package hosts

import (
	"encoding/binary"
	"fmt"
)

// mapping is what a translator (NAT) does to one UDP port of a host: to the
// others it is another port.
type mapping struct{ inside, outside uint16 }

// Rebind makes UDP port inside of a host appear to the others as port outside, as
// a translator does that has forgotten what it did before: what is sent to the
// port as it was known up to now is lost. A new Rebind takes the place of the one
// before; outside 0 ends it. Fragments and multicast are left alone.
func (l *Lab) Rebind(host string, inside, outside uint16) error {
	i, err := l.find(host)
	if err != nil {
		return err
	}
	if inside == 0 || inside == outside {
		return fmt.Errorf("rebind %s: port %d cannot become port %d", host, inside, outside)
	}
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	delete(l.net.mappings, i)
	if outside != 0 {
		l.net.mappings[i] = mapping{inside, outside}
	}
	return nil
}

// translate rewrites the ports of a frame between two hosts, and reports false
// for one that nobody takes any more.
func (e *ethernet) translate(from, to int, frame []byte) bool {
	udp := udpHeader(frame)
	if udp == nil {
		return true
	}
	source, target := udp[0:2], udp[2:4]
	if m, ok := e.mappings[from]; ok && binary.BigEndian.Uint16(source) == m.inside {
		rewrite(udp, source, m.outside)
	}
	if m, ok := e.mappings[to]; ok {
		switch binary.BigEndian.Uint16(target) {
		case m.outside:
			rewrite(udp, target, m.inside)
		case m.inside:
			return false
		}
	}
	return true
}

// udpHeader is the rest of a frame from the UDP header of a whole packet on; nil
// when there is none.
func udpHeader(frame []byte) []byte {
	const udp, headerSize4, headerSize6 = 17, 20, 40
	packet := frame[headerSize:]
	switch kind := binary.BigEndian.Uint16(frame[12:]); {
	case kind == 0x0800 && len(packet) >= headerSize4 && packet[9] == udp && binary.BigEndian.Uint16(packet[6:])&0x3fff == 0:
		packet = packet[min(int(packet[0]&15)*4, len(packet)):]
	case kind == 0x86dd && len(packet) >= headerSize6 && packet[6] == udp:
		packet = packet[headerSize6:]
	default:
		return nil
	}
	if len(packet) < 8 {
		return nil
	}
	return packet
}

// rewrite changes a port, and the checksum by the difference (RFC 1624); one that
// was not computed stays so.
func rewrite(udp, port []byte, to uint16) {
	before, sum := binary.BigEndian.Uint16(port), binary.BigEndian.Uint16(udp[6:])
	binary.BigEndian.PutUint16(port, to)
	if sum == 0 {
		return
	}
	next := uint32(^sum) + uint32(^before) + uint32(to)
	for next > 0xffff {
		next = next>>16 + next&0xffff
	}
	if sum = ^uint16(next); sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(udp[6:], sum)
}
