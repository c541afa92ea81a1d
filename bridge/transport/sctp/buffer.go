package sctp

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// kernelBuffer is the requested size of the socket's buffers, in bytes, the same as in quic-go.
// SCTP begins with a window of 1 MiB, and Linux's default buffer has room for about 90 packets.
// With a smaller buffer a burst is lost while the reader waits for a CPU.
const kernelBuffer = 7 << 20

// growBuffers requests kernelBuffer, beyond net.core.rmem_max and wmem_max if permitted
// (CAP_NET_ADMIN). It returns the sizes in effect, in bytes as Linux counts them: Linux doubles
// the requested size for its bookkeeping. Zero means unknown.
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
