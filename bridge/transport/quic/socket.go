package quic

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"achbridge/bridge/transport/session"
	"achbridge/bridge/via"
)

// quietSocket is a UDP socket for quic-go that needs less CPU. It uses raw system calls, since
// they never block. The usual calls would wake the runtime's monitor thread for nearly every
// packet of a process that is idle in between, which costs more than the packet. It also
// allocates no new address for each packet of the same peer.
type quietSocket struct {
	*net.UDPConn
	raw        syscall.RawConn
	inet6      bool
	in         batch
	calls      sync.Pool             // contains *sending
	hasSession func(netip.Addr) bool // reports whether there is a session with an address
	marks      *marks

	mu      sync.Mutex
	refused map[netip.AddrPort]*refusedPacket // key: the receiver
}

// refusedPacket is the latest packet of a session that could not be sent without a network. It
// is retried until it is sent. From it the peer learns the new address of this host.
type refusedPacket struct {
	b, oob []byte
	addr   *net.UDPAddr
	first  time.Time // when the first packet was refused
}

const (
	refusedPeriod = 20 * time.Millisecond
	refusedMost   = 100 * time.Millisecond // after a longer gap a new session is established faster than the old one recovers
)

// batchReader is the interface that quic-go uses to read several packets at once.
type batchReader interface {
	ReadBatch(ms []ipv4.Message, flags int) (int, error)
}

var _ batchReader = (*quietSocket)(nil)

// quiet returns conn as a quietSocket if it is a UDP socket, else conn itself. The function hasSession
// reports whether there is a session with an address.
func quiet(conn net.PacketConn, hasSession func(netip.Addr) bool, marking *session.Marking) net.PacketConn {
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		return conn
	}
	raw, err := udp.SyscallConn()
	if err != nil {
		return conn
	}
	s := &quietSocket{UDPConn: udp, raw: raw, hasSession: hasSession, marks: newMarks(marking)}
	var name unix.Sockaddr
	if raw.Control(func(fd uintptr) { name, err = unix.Getsockname(int(fd)) }) != nil || err != nil {
		return conn
	}
	_, s.inet6 = name.(*unix.SockaddrInet6)
	s.in.take = s.in.receive
	s.calls.New = func() any {
		c := &sending{}
		c.leave = c.send
		return c
	}
	return s
}

// sending has the arguments and the result of one sendmsg call. It is reused.
type sending struct {
	header unix.Msghdr
	vector unix.Iovec
	name   unix.RawSockaddrInet6 // also has room for an IPv4 address
	sent   int
	errno  syscall.Errno
	oob    []byte                // control messages with a mark
	leave  func(fd uintptr) bool // the method send, allocated once
}

// WriteMsgUDP writes like net.UDPConn.WriteMsgUDP, except for a packet of a session while there
// is no network for a moment, for example during a handover to another access point. It
// retries such a packet later and returns no error, since quic-go would end the session. Safe
// for concurrent use.
func (s *quietSocket) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	n, oobn, err = s.write(b, oob, addr)
	if err != nil && noNetwork(err) && !namesSource(oob) && s.hasSession(session.AddrOf(addr)) && s.keep(b, oob, addr) {
		return len(b), len(oob), nil
	}
	return n, oobn, err
}

// keep stores the packet to be retried, instead of the previous one. It returns false if no
// packet could be sent for refusedMost.
func (s *quietSocket) keep(b, oob []byte, addr *net.UDPAddr) bool {
	to := addr.AddrPort()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.refused[to]
	if p == nil {
		if s.refused == nil {
			s.refused = make(map[netip.AddrPort]*refusedPacket)
		}
		p = &refusedPacket{addr: addr, first: time.Now()}
		s.refused[to] = p
		time.AfterFunc(refusedPeriod, func() { s.again(to) })
	}
	p.b, p.oob = append(p.b[:0], b...), append(p.oob[:0], oob...)
	return time.Since(p.first) < refusedMost
}

// again retries the refused packet for a receiver, while there is a session with it.
func (s *quietSocket) again(to netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.refused[to]
	if _, _, err := s.write(p.b, p.oob, p.addr); err != nil && noNetwork(err) && s.hasSession(session.AddrOf(p.addr)) {
		time.AfterFunc(refusedPeriod, func() { s.again(to) })
		return
	}
	delete(s.refused, to)
}

// namesSource reports whether a packet must be sent from a certain source address, like those of
// an accepted session. Such a session cannot use another address, so it should end soon.
func namesSource(oob []byte) bool {
	messages, err := unix.ParseSocketControlMessage(oob)
	return err != nil || slices.ContainsFunc(messages, func(m unix.SocketControlMessage) bool {
		return m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO ||
			m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO
	})
}

// noNetwork reports whether err may be temporary, until the host has an address again.
func noNetwork(err error) bool {
	return errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETDOWN)
}

// write sends a packet, with the mark of its receiver's session if the kernel permits.
func (s *quietSocket) write(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	c := s.calls.Get().(*sending)
	defer s.calls.Put(c)
	d := s.marks.lookup(addr)
	if d == via.CS0 {
		return s.writeWith(c, b, oob, addr)
	}
	c.oob = session.AppendMark(c.oob[:0], oob, session.AddrOf(addr), d)
	if n, oobn, err = s.writeWith(c, b, c.oob, addr); err == nil {
		return n, len(oob), nil
	}
	err = s.marks.marking.Retry(err, func() (err error) {
		n, oobn, err = s.writeWith(c, b, oob, addr)
		return err
	})
	return n, oobn, err
}

// writeWith sends a packet with the arguments in c.
func (s *quietSocket) writeWith(c *sending, b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	size := c.address(addr, s.inet6)
	if size == 0 || len(b) == 0 {
		return s.UDPConn.WriteMsgUDP(b, oob, addr)
	}
	c.vector.Base = unsafe.SliceData(b)
	c.vector.SetLen(len(b))
	c.header = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&c.name)), Namelen: size, Iov: &c.vector, Control: unsafe.SliceData(oob)}
	c.header.SetIovlen(1)
	c.header.SetControllen(len(oob))
	err = s.raw.Write(c.leave)
	c.vector, c.header = unix.Iovec{}, unix.Msghdr{} // keep no reference to the caller's memory
	if err == nil && c.errno != 0 {
		err = &net.OpError{Op: "write", Net: "udp", Source: s.LocalAddr(), Addr: addr, Err: os.NewSyscallError("sendmsg", c.errno)}
	}
	if err != nil {
		return 0, 0, err
	}
	return c.sent, len(oob), nil
}

// address stores addr in the kernel's format and returns its size. It returns 0 if only the net
// package can send to addr.
func (c *sending) address(addr *net.UDPAddr, inet6 bool) (size uint32) {
	ip, ok := netip.AddrFromSlice(addr.IP)
	if !ok || addr.Zone != "" || !inet6 && !ip.Unmap().Is4() {
		return 0
	}
	if inet6 {
		c.name = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: networkOrder(addr.Port), Addr: ip.As16()}
		return unix.SizeofSockaddrInet6
	}
	*(*unix.RawSockaddrInet4)(unsafe.Pointer(&c.name)) = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: networkOrder(addr.Port), Addr: ip.Unmap().As4()}
	return unix.SizeofSockaddrInet4
}

// send calls sendmsg. It returns false if the socket's buffer is full.
func (c *sending) send(fd uintptr) bool {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&c.header)), 0)
		switch errno {
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			c.sent, c.errno = int(n), errno
			return true
		}
	}
}

// batch has the arguments and results of one recvmmsg call. It belongs to the reading goroutine.
type batch struct {
	headers []messageHeader
	vectors []unix.Iovec
	names   []unix.RawSockaddrInet6
	count   int
	errno   syscall.Errno
	take    func(fd uintptr) bool // the method receive, allocated once

	last     unix.RawSockaddrInet6 // sender of the latest packet
	lastAddr *net.UDPAddr          // last as a net.UDPAddr; never modified
}

// messageHeader is struct mmsghdr.
type messageHeader struct {
	unix.Msghdr
	size uint32
}

// ReadBatch reads like ipv4.PacketConn.ReadBatch, for messages with one buffer each. Not safe
// for concurrent use.
func (s *quietSocket) ReadBatch(ms []ipv4.Message, _ int) (int, error) {
	b := &s.in
	b.prepare(ms)
	if err := s.raw.Read(b.take); err != nil {
		return 0, err
	}
	if b.errno != 0 {
		return 0, &net.OpError{Op: "read", Net: "udp", Source: s.LocalAddr(), Err: os.NewSyscallError("recvmmsg", b.errno)}
	}
	for i := range ms[:b.count] {
		h := &b.headers[i]
		ms[i].N, ms[i].NN, ms[i].Flags, ms[i].Addr = int(h.size), int(h.Controllen), int(h.Flags), b.sender(&b.names[i])
	}
	return b.count, nil
}

func (b *batch) prepare(ms []ipv4.Message) {
	if len(b.headers) != len(ms) {
		b.headers, b.vectors, b.names = make([]messageHeader, len(ms)), make([]unix.Iovec, len(ms)), make([]unix.RawSockaddrInet6, len(ms))
	}
	for i := range ms {
		v, h := &b.vectors[i], &b.headers[i]
		v.Base = unsafe.SliceData(ms[i].Buffers[0])
		v.SetLen(len(ms[i].Buffers[0]))
		h.Msghdr = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&b.names[i])), Namelen: unix.SizeofSockaddrInet6, Iov: v, Control: unsafe.SliceData(ms[i].OOB)}
		h.SetIovlen(1)
		h.SetControllen(len(ms[i].OOB))
	}
}

// receive calls recvmmsg. It returns false if no packet has arrived.
func (b *batch) receive(fd uintptr) bool {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b.headers))), uintptr(len(b.headers)), 0, 0, 0)
		switch errno {
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			b.count, b.errno = int(n), errno
			return true
		}
	}
}

// sender converts an address. It allocates only if the address differs from the previous one.
func (b *batch) sender(name *unix.RawSockaddrInet6) *net.UDPAddr {
	if name.Family == unix.AF_INET {
		four := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		*name = unix.RawSockaddrInet6{Family: unix.AF_INET, Port: four.Port, Addr: netip.AddrFrom4(four.Addr).As16()}
	}
	if b.lastAddr != nil && *name == b.last {
		return b.lastAddr
	}
	b.last = *name
	b.lastAddr = &net.UDPAddr{IP: append(net.IP(nil), name.Addr[:]...), Port: int(networkOrder(int(name.Port))), Zone: zone(name.Scope_id)}
	return b.lastAddr
}

// zone returns the name of the interface with this index.
func zone(index uint32) string {
	if index == 0 {
		return ""
	}
	if i, err := net.InterfaceByIndex(int(index)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(index), 10)
}

// networkOrder converts a port between host and network byte order.
func networkOrder(port int) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], uint16(port))
	return binary.NativeEndian.Uint16(b[:])
}
