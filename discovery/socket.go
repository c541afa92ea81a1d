package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// family is an address family. Each family needs its own multicast sockets.
type family int

const (
	ip4 family = 4
	ip6 family = 6
)

// index returns the family's index in arrays with one element for each family.
func (f family) index() int {
	if f == ip6 {
		return 1
	}
	return 0
}

const mdnsPort = 5353

// Multicast groups of mDNS.
var (
	group4 = netip.MustParseAddr("224.0.0.251")
	group6 = netip.MustParseAddr("ff02::fb")
)

// receiveBuffer is the size of the receive buffer in bytes. It holds over a thousand packets, enough for twenty hosts that
// are switched on together while this process waits for a CPU.
const receiveBuffer = 2 << 20

// socket is a UDP socket of one family on the mDNS port, which it shares with all other responders of this host. Only one
// goroutine may call receive; Close wakes it.
type socket struct {
	family family
	group  net.Addr     // the mDNS group
	joined map[int]bool // indexes of the interfaces on which the socket has joined group
	conn   net.PacketConn
	v4     *ipv4.PacketConn // wraps conn; nil if family is ip6
	v6     *ipv6.PacketConn // wraps conn; nil if family is ip4
	member interface {      // v4 or v6
		JoinGroup(*net.Interface, net.Addr) error
		LeaveGroup(*net.Interface, net.Addr) error
	}
}

// openSocket opens a socket on the mDNS port. It receives no multicast until join.
func openSocket(f family) (*socket, error) {
	network, group := "udp4", netip.AddrPortFrom(group4, mdnsPort)
	if f == ip6 {
		network, group = "udp6", netip.AddrPortFrom(group6, mdnsPort)
	}
	// For the address of a group, package net binds the wildcard address with SO_REUSEADDR.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return setOptions(f, c) }}
	conn, err := lc.ListenPacket(context.Background(), network, group.String())
	if err != nil {
		return nil, fmt.Errorf("mdns port: %w", err)
	}
	s := &socket{family: f, group: net.UDPAddrFromAddrPort(group), joined: map[int]bool{}, conn: conn}
	if f == ip6 {
		s.v6 = ipv6.NewPacketConn(conn)
		s.member = s.v6
		err = s.v6.SetControlMessage(ipv6.FlagInterface|ipv6.FlagDst, true)
	} else {
		s.v4 = ipv4.NewPacketConn(conn)
		s.member = s.v4
		err = s.v4.SetControlMessage(ipv4.FlagInterface|ipv4.FlagDst, true)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mdns port: %w", err), conn.Close())
	}
	return s, nil
}

// setOptions enlarges the receive buffer and disables IP_MULTICAST_ALL, with which a socket also receives packets of groups
// that other sockets of this host have joined, on interfaces that we do not use.
func setOptions(f family, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		if f == ip6 {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL, 0)
		} else {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
		}
		// SO_RCVBUFFORCE needs root. The kernel limits SO_RCVBUF to net.core.rmem_max.
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
		}
	})
	return errors.Join(err, cerr)
}

// join joins the mDNS group on an interface, or does nothing if s has joined it already. The error is ENOBUFS if the socket
// may join no further group.
func (s *socket) join(i net.Interface) error {
	err := s.member.JoinGroup(&i, s.group)
	if errors.Is(err, unix.EADDRINUSE) {
		err = nil
	}
	if err == nil {
		s.joined[i.Index] = true
	}
	return err
}

// leaveGroup leaves the mDNS group on an interface, which may have been removed.
func (s *socket) leaveGroup(ifIndex int) {
	_ = s.member.LeaveGroup(&net.Interface{Index: ifIndex}, s.group)
	delete(s.joined, ifIndex)
}

// send multicasts b on one interface. Sockets of this host receive b too.
func (s *socket) send(b []byte, i net.Interface) error { return s.sendFrom(netip.Addr{}, b, i) }

// sendFrom multicasts b on one interface from the address src of that interface. The zero Addr lets the kernel choose.
func (s *socket) sendFrom(src netip.Addr, b []byte, i net.Interface) error {
	var err error
	if s.v6 != nil {
		_, err = s.v6.WriteTo(b, &ipv6.ControlMessage{IfIndex: i.Index, Src: src.AsSlice()}, s.group)
	} else {
		_, err = s.v4.WriteTo(b, &ipv4.ControlMessage{IfIndex: i.Index, Src: src.AsSlice()}, s.group)
	}
	return err
}

// arrival is what the kernel reports about a received packet.
type arrival struct {
	from    netip.AddrPort
	to      netip.Addr // multicast group or own address; invalid if the kernel did not report it
	ifIndex int        // index of the receiving interface
}

// receive blocks until a packet arrives and copies it to b.
func (s *socket) receive(b []byte) (n int, at arrival, err error) {
	var src net.Addr
	var dst net.IP
	if s.v6 != nil {
		var cm *ipv6.ControlMessage
		if n, cm, src, err = s.v6.ReadFrom(b); cm != nil {
			at.ifIndex, dst = cm.IfIndex, cm.Dst
		}
	} else {
		var cm *ipv4.ControlMessage
		if n, cm, src, err = s.v4.ReadFrom(b); cm != nil {
			at.ifIndex, dst = cm.IfIndex, cm.Dst
		}
	}
	if u, ok := src.(*net.UDPAddr); ok {
		at.from = u.AddrPort()
	}
	to, _ := netip.AddrFromSlice(dst)
	at.to = to.Unmap()
	return n, at, err
}

func (s *socket) Close() error { return s.conn.Close() }
