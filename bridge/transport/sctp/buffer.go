package sctp

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// kernelBuffer is the size of the socket's buffers to ask for, in bytes, as quic-go does: SCTP
// begins with a window of 1 MiB, and Linux's usual buffer holds some 90 packets. With a
// smaller buffer a burst is lost while the reader waits for a processor.
const kernelBuffer = 7 << 20

// growBuffers asks for kernelBuffer, beyond net.core.rmem_max and wmem_max if we may
// (CAP_NET_ADMIN), and returns what it got, in bytes as Linux counts them: with its
// bookkeeping, for which it doubles what it is asked. Zero is unknown.
func growBuffers(conn net.PacketConn) (receive, send int) {
	if c, ok := conn.(interface {
		SetReadBuffer(int) error
		SetWriteBuffer(int) error
	}); ok {
		c.SetReadBuffer(kernelBuffer) // a smaller buffer works too
		c.SetWriteBuffer(kernelBuffer)
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return 0, 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0
	}
	raw.Control(func(fd uintptr) {
		receive = growBuffer(int(fd), unix.SO_RCVBUF, unix.SO_RCVBUFFORCE)
		send = growBuffer(int(fd), unix.SO_SNDBUF, unix.SO_SNDBUFFORCE)
	})
	return receive, send
}

func growBuffer(fd, option, force int) int {
	got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
	if err == nil && got < kernelBuffer && unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, kernelBuffer) == nil {
		got, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
	}
	return got
}
