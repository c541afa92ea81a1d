package hosts

import (
	"encoding/binary"
	"fmt"
)

// mapping is a NAT mapping of one UDP port of a host: for other hosts the port inside
// is the port outside.
type mapping struct{ inside, outside uint16 }

// Rebind makes the UDP port inside of a host appear to other hosts as port outside,
// like a NAT that has lost its mapping. Datagrams to the port's former number are
// lost. Rebind replaces an earlier mapping; outside 0 removes it. It does not change
// IP fragments and multicast.
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

// translate rewrites the ports of a frame between two hosts. It returns false if the
// frame is for a port number that no longer exists.
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

// udpHeader returns the frame from the UDP header on, or nil if it has none or is an
// IP fragment.
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

// rewrite changes a port and updates the checksum (RFC 1624), unless there is no
// checksum.
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
