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
)

// quietSocket is a UDP socket that quic-go reads and writes as it does any other. Its system calls
// are raw ones, since they never block: the usual ones would wake the runtime's monitor thread for
// nearly every packet of a process that is idle in between, which costs more than the packet. It
// also makes no new address for each packet of the same peer.
type quietSocket struct {
	*net.UDPConn
	raw   syscall.RawConn
	inet6 bool
	in    batch
	calls sync.Pool             // of *sending
	lives func(netip.Addr) bool // whether a session with an address lives

	mu      sync.Mutex
	refused map[netip.AddrPort]*refusedPacket // by its receiver
}

// refusedPacket is the latest packet of a living session that found no network. It is tried
// again until it leaves: by it the peer learns the address that the host has then.
type refusedPacket struct {
	b, oob []byte
	addr   *net.UDPAddr
	first  time.Time // when one was refused first
}

const (
	refusedPeriod = 20 * time.Millisecond
	refusedMost   = 100 * time.Millisecond // a session is made anew sooner than it notices that a longer gap is over
)

// batchReader is what quic-go reads many packets by, if its socket has it.
type batchReader interface {
	ReadBatch(ms []ipv4.Message, flags int) (int, error)
}

var _ batchReader = (*quietSocket)(nil)

// quiet returns conn as a quietSocket if it is a UDP socket, else conn itself. lives tells
// whether a session with an address lives.
func quiet(conn net.PacketConn, lives func(netip.Addr) bool) net.PacketConn {
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		return conn
	}
	raw, err := udp.SyscallConn()
	if err != nil {
		return conn
	}
	s := &quietSocket{UDPConn: udp, raw: raw, lives: lives}
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

// sending is one call of sendmsg.
type sending struct {
	header unix.Msghdr
	vector unix.Iovec
	name   unix.RawSockaddrInet6 // an IPv4 socket's fits too
	sent   int
	errno  syscall.Errno
	leave  func(fd uintptr) bool // send, made once
}

// WriteMsgUDP is net.UDPConn's, but for a packet of a living session that finds no network
// for a moment, as while a host is handed over to another access point: quic-go would end
// the session. Safe for concurrent use.
func (s *quietSocket) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	n, oobn, err = s.write(b, oob, addr)
	if err != nil && noNetwork(err) && !namesSource(oob) && s.lives(session.AddrOf(addr)) && s.keep(b, oob, addr) {
		return len(b), len(oob), nil
	}
	return n, oobn, err
}

// keep has the packet tried again, instead of the one before it. It reports false if none
// has left for too long.
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

// again tries the refused packet for a receiver, while there is a session with it.
func (s *quietSocket) again(to netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.refused[to]
	if _, _, err := s.write(p.b, p.oob, p.addr); err != nil && noNetwork(err) && s.lives(session.AddrOf(p.addr)) {
		time.AfterFunc(refusedPeriod, func() { s.again(to) })
		return
	}
	delete(s.refused, to)
}

// namesSource reports whether a packet has to leave from a certain address, as those of an
// accepted session: another address is of no use to it, and the sooner it ends the better.
func namesSource(oob []byte) bool {
	messages, err := unix.ParseSocketControlMessage(oob)
	return err != nil || slices.ContainsFunc(messages, func(m unix.SocketControlMessage) bool {
		return m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO ||
			m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO
	})
}

// noNetwork reports whether err may pass when the host has an address again.
func noNetwork(err error) bool {
	return errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETDOWN)
}

func (s *quietSocket) write(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	c := s.calls.Get().(*sending)
	defer s.calls.Put(c)
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
	c.vector, c.header = unix.Iovec{}, unix.Msghdr{} // holds nobody's memory
	if err == nil && c.errno != 0 {
		err = &net.OpError{Op: "write", Net: "udp", Source: s.LocalAddr(), Addr: addr, Err: os.NewSyscallError("sendmsg", c.errno)}
	}
	if err != nil {
		return 0, 0, err
	}
	return c.sent, len(oob), nil
}

// address writes addr as the kernel has it and returns its size; 0: only the net package can.
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

// send reports false if the socket is full.
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

// batch is what one call of recvmmsg fills. It belongs to the goroutine that reads.
type batch struct {
	headers []messageHeader
	vectors []unix.Iovec
	names   []unix.RawSockaddrInet6
	count   int
	errno   syscall.Errno
	take    func(fd uintptr) bool // receive, made once

	last     unix.RawSockaddrInet6 // the latest sender
	lastAddr *net.UDPAddr          // the same; never changed
}

// messageHeader is struct mmsghdr.
type messageHeader struct {
	unix.Msghdr
	size uint32
}

// ReadBatch is that of ipv4.PacketConn, for messages with one buffer each. One goroutine at a time.
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

// receive reports false if nothing has come.
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

// sender makes an address, unless it is that of the packet before.
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

// zone is the name of an interface.
func zone(index uint32) string {
	if index == 0 {
		return ""
	}
	if i, err := net.InterfaceByIndex(int(index)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(index), 10)
}

// networkOrder turns the bytes of a port around where the processor needs it.
func networkOrder(port int) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], uint16(port))
	return binary.NativeEndian.Uint16(b[:])
}
