package testnet

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// defaultReadBuffer is Linux's net.core.rmem_default, in bytes.
const defaultReadBuffer = 212992

const maxPayload = 65507 // largest UDP payload over IPv4

// Conn is a socket of a Host: a net.PacketConn whose addresses are *net.UDPAddr.
// WriteTo never blocks. Received datagrams wait in a bounded buffer like that of a
// real socket; those that do not fit are discarded and counted. A Conn is safe for
// concurrent use.
type Conn struct {
	host    *Host
	network string
	local   netip.AddrPort

	mu        sync.Mutex
	received  []datagram
	bytes     int
	limit     int
	discarded uint64
	ready     chan struct{} // has a token while datagrams wait
	closed    chan struct{}
	deadlines
}

func newConn(h *Host, network string, local netip.AddrPort) *Conn {
	return &Conn{
		host: h, network: network, local: local, limit: defaultReadBuffer,
		ready: make(chan struct{}, 1), closed: make(chan struct{}),
		deadlines: newDeadlines(),
	}
}

// ReadFrom copies the oldest datagram that waits to b, truncated if it does not
// fit. It blocks until a datagram arrives, the read deadline passes
// (os.ErrDeadlineExceeded) or Close is called (net.ErrClosed).
func (c *Conn) ReadFrom(b []byte) (int, net.Addr, error) {
	if err := c.usable("read", c.read); err != nil {
		return 0, nil, err
	}
	for {
		past, moved := c.read.signals()
		select {
		case <-c.closed:
			return 0, nil, c.fail("read", net.ErrClosed)
		case <-past:
			return 0, nil, c.fail("read", os.ErrDeadlineExceeded)
		case <-moved:
		case <-c.ready:
			if d, ok := c.take(); ok {
				return copy(b, d.data), net.UDPAddrFromAddrPort(d.from), nil
			}
		}
	}
}

// usable returns an error if c is closed or d has passed, even if datagrams wait.
func (c *Conn) usable(op string, d *deadline) error {
	past, _ := d.signals()
	select {
	case <-c.closed:
		return c.fail(op, net.ErrClosed)
	case <-past:
		return c.fail(op, os.ErrDeadlineExceeded)
	default:
		return nil
	}
}

// take removes and returns the oldest datagram. ok is false if another reader was faster.
func (c *Conn) take() (datagram, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.received) == 0 {
		return datagram{}, false
	}
	d := c.received[0]
	c.received[0] = datagram{}
	c.received = c.received[1:]
	c.bytes -= len(d.data) + Overhead4
	if len(c.received) > 0 {
		c.wake()
	}
	return d, true
}

// wake wakes one reader.
func (c *Conn) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// receive stores d in the buffer. The caller must hold the network's lock.
func (c *Conn) receive(d datagram) What {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes+len(d.data)+Overhead4 > c.limit {
		c.discarded++
		return WhatDiscarded
	}
	c.received = append(c.received, d)
	c.bytes += len(d.data) + Overhead4
	c.wake()
	return WhatArrived
}

// WriteTo sends a copy of b to a UDP address. It is no error if no socket has that address.
func (c *Conn) WriteTo(b []byte, addr net.Addr) (int, error) {
	if err := c.usable("write", c.write); err != nil {
		return 0, err
	}
	udp, ok := addr.(*net.UDPAddr)
	if !ok {
		return 0, c.fail("write", fmt.Errorf("%T is no *net.UDPAddr", addr))
	}
	to := netip.AddrPortFrom(udp.AddrPort().Addr().Unmap(), udp.AddrPort().Port())
	switch {
	case !to.IsValid():
		return 0, c.fail("write", fmt.Errorf("%v: %w", addr, syscall.EDESTADDRREQ))
	case family(to.Addr()) != family(c.local.Addr()):
		return 0, c.fail("write", fmt.Errorf("%v from %v: %w", addr, c.local, syscall.EAFNOSUPPORT))
	case len(b) > maxPayload:
		return 0, c.fail("write", syscall.EMSGSIZE)
	}
	c.host.net.send(c.host, datagram{from: c.local, to: to, data: append([]byte(nil), b...)})
	return len(b), nil
}

// Close wakes readers and frees the port. A second Close returns net.ErrClosed.
func (c *Conn) Close() error {
	n := c.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-c.closed:
		return c.fail("close", net.ErrClosed)
	default:
	}
	close(c.closed)
	_ = c.SetDeadline(time.Time{})
	pair := c.host.sockets[c.local.Port()]
	pair[family(c.local.Addr())] = nil
	c.host.sockets[c.local.Port()] = pair
	if pair == [2]*Conn{} {
		delete(c.host.sockets, c.local.Port())
	}
	return nil
}

// LocalAddr returns a *net.UDPAddr.
func (c *Conn) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(c.local) }

// SetReadBuffer limits the datagrams that may wait, in bytes including 28 bytes for
// each datagram. quic-go requests 7 MiB.
func (c *Conn) SetReadBuffer(bytes int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = bytes
	return nil
}

// SetWriteBuffer does nothing, since the link's queue is the only write buffer.
func (c *Conn) SetWriteBuffer(int) error { return nil }

// Discarded returns how many datagrams were discarded because the buffer was full.
func (c *Conn) Discarded() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.discarded
}

func (c *Conn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: c.network, Source: c.LocalAddr(), Err: err}
}
