package hubway

import (
	"context"
	"errors"
	"net"
)

// Hub reaches hosts without a direct path. Its operator is untrusted: all data that it carries is sealed or inside TLS.
type Hub interface {
	// Dial opens a reliable byte stream to a host. It fails at once with ErrAway if there is no connection to the hub.
	// Accept returns a stream opened by another host. A stream ends at both ends when one end closes it, a message is
	// lost or duplicated, or the connection ends. Streams support deadlines, which crypto/tls needs.
	Dial(ctx context.Context, host string) (net.Conn, error)
	Accept(ctx context.Context) (net.Conn, error)
	// Channel returns the slot of a channel's newest frame at the hub. It does not block.
	Channel(host, channel string) Channel
}

// Channel is the slot of one channel's newest frame at the hub. One goroutine may call Room and Put, and another one
// Next. Close ends all pending calls.
type Channel interface {
	// Room blocks until a frame of size bytes could be sent at once, so that the caller can copy the newest frame then.
	// It fails at once if there is no connection to the hub.
	Room(ctx context.Context, size int) error
	// Put stores b as the channel's newest frame, after the frames of earlier calls. It returns when b is being sent and
	// may be reused. acked then receives the hub's acknowledgement within seconds, even if the connection ends: nil, or
	// why b may not be stored. Put queues nothing: it fails at once without a connection. The error wraps ErrTooLarge
	// for a frame that the hub would never accept.
	Put(ctx context.Context, b []byte) (acked <-chan error, err error)
	// Next blocks until a frame arrives or ctx ends. If several arrived since the last call, it returns the newest one.
	// It keeps up to three fetches of one message outstanding. Without a connection it waits or fails. The first frame
	// of a connection may have arrived before. The caller owns the slice.
	Next(ctx context.Context) ([]byte, error)
	Close()
}

var (
	// ErrTooLarge is returned for a frame larger than the hub's message limit.
	ErrTooLarge = errors.New("larger than the hub takes")
	// ErrAway is returned without a connection to the hub. The node reports this error once, not for each host.
	ErrAway = errors.New("no connection to the hub")
)
